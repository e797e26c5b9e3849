package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// fleet is the informers that run, by their names. Only one goroutine calls it.
type fleet struct {
	reports  *reporter
	informer map[string]*informer
	// stopping counts those that were stopped and whose end is still to be told.
	stopping sync.WaitGroup
}

// informer is one of client-go's shared informers and its registrations.
type informer struct {
	shared        cache.SharedIndexInformer
	registrations map[string]cache.ResourceEventHandlerRegistration
	cancel        context.CancelFunc
	running       sync.WaitGroup
}

func newFleet(reports *reporter) *fleet {
	return &fleet{reports: reports, informer: map[string]*informer{}}
}

func (f *fleet) obey(asked request) error {
	if asked.Do == "start" {
		return f.start(asked)
	}
	one, found := f.informer[asked.ID]
	if !found {
		return fmt.Errorf("%s: no informer %q", asked.Do, asked.ID)
	}
	switch asked.Do {
	case "listen":
		return f.listen(one, asked)
	case "leave":
		if err := one.shared.RemoveEventHandler(one.registrations[asked.Listener]); err != nil {
			return fmt.Errorf("leave: %w", err)
		}
		f.reports.send(report{ID: asked.ID, Listener: asked.Listener, Left: true})
		return nil
	case "cache":
		f.reports.send(report{ID: asked.ID, Cache: contents(one.shared.GetStore())})
		return nil
	case "stop":
		f.stop(asked.ID, one)
		return nil
	default:
		return fmt.Errorf("unknown request %q", asked.Do)
	}
}

// start makes an informer with one listener, as a program does that adds its
// handler before it starts the informer.
func (f *fleet) start(asked request) error {
	// No limit on requests: a script's outage is no reason to be slow later.
	config := &rest.Config{Host: asked.URL, QPS: -1, UserAgent: "client-go"}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: asked.Resource}
	selected := func(options *metav1.ListOptions) { options.LabelSelector = asked.Selector }
	generic := dynamicinformer.NewFilteredDynamicInformer(
		client, resource, metav1.NamespaceAll, period(asked), cache.Indexers{}, selected)

	ctx, cancel := context.WithCancel(context.Background())
	one := &informer{
		shared:        generic.Informer(),
		registrations: map[string]cache.ResourceEventHandlerRegistration{},
		cancel:        cancel,
	}
	if err := f.listen(one, asked); err != nil {
		cancel()
		return err
	}
	f.informer[asked.ID] = one
	one.running.Go(func() { one.shared.RunWithContext(ctx) })
	return nil
}

func (f *fleet) listen(one *informer, asked request) error {
	handler := &listener{reports: f.reports, id: asked.ID, name: asked.Listener}
	resync := period(asked)
	registration, err := one.shared.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resync})
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	one.registrations[asked.Listener] = registration
	return nil
}

// stop ends an informer and reports when its last handler has returned.
func (f *fleet) stop(id string, one *informer) {
	delete(f.informer, id)
	one.cancel()
	f.stopping.Go(func() {
		one.running.Wait()
		f.reports.send(report{ID: id, Stopped: true})
	})
}

// stopAll ends what still runs, and returns when nothing does.
func (f *fleet) stopAll() {
	for id, one := range f.informer {
		f.stop(id, one)
	}
	f.stopping.Wait()
}

func period(asked request) time.Duration {
	return time.Duration(asked.ResyncMillis) * time.Millisecond
}

func contents(store cache.Store) map[string]state {
	all := map[string]state{}
	for _, held := range store.List() {
		if object, ok := held.(*unstructured.Unstructured); ok {
			text := object.GetAnnotations()["text"]
			all[keyOf(object)] = state{string(object.GetUID()), object.GetResourceVersion(), text}
		}
	}
	return all
}

func keyOf(object *unstructured.Unstructured) string {
	return object.GetNamespace() + "/" + object.GetName()
}

// listener reports what it is told.
type listener struct {
	reports  *reporter
	id, name string
}

func (l *listener) OnAdd(told any, isInInitialList bool) {
	l.send("add", told, func(r *report) { r.Initial = isInInitialList })
}

func (l *listener) OnUpdate(before, told any) {
	l.send("update", told, func(r *report) {
		if old, ok := before.(*unstructured.Unstructured); ok {
			r.OldUID, r.OldRV = string(old.GetUID()), old.GetResourceVersion()
		}
	})
}

func (l *listener) OnDelete(told any) {
	tombstone, unknown := told.(cache.DeletedFinalStateUnknown)
	if unknown {
		told = tombstone.Obj
	}
	l.send("delete", told, func(r *report) { r.Unknown = unknown })
}

func (l *listener) send(op string, told any, more func(*report)) {
	object, ok := told.(*unstructured.Unstructured)
	if !ok {
		l.reports.send(report{ID: l.id, Listener: l.name, Error: fmt.Sprintf("%s of a %T", op, told)})
		return
	}
	one := report{
		ID: l.id, Listener: l.name, Op: op, Key: keyOf(object),
		UID: string(object.GetUID()), RV: object.GetResourceVersion(),
	}
	more(&one)
	l.reports.send(one)
}
