//! What a first list costs, streamed and in one answer: processor time of the client's thread, and time in all.
//!
//! `cargo run --release -p hark-informer --example initial_list -- 10000 50000`
//!
//! A canned server on another thread sends the same objects both ways, of about 2.3 KB as pods are, from bytes made
//! beforehand; the reflector puts them into a store that only keeps them. Each figure is the least of five.

#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hark_informer::client::{Client, ClientLimits};
use hark_informer::list_watch::ListWatch;
use hark_informer::object::{Ingest, Object};
use hark_informer::reflector::{InitialList, Phase, Reflector, ReflectorOptions, ReflectorStore};
use hark_informer::resource::Selector;
use rustix::time::{ClockId, clock_gettime};
use tokio_util::sync::CancellationToken;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const ROUNDS: usize = 5;

/// A pod as a kube-apiserver sends it, without its braces and type.
fn pod(number: usize) -> String {
    let fields = |manager: &str| {
        format!(
            r#"{{"manager":"{manager}","operation":"Update","apiVersion":"v1","time":"2026-11-29T14:03:14Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:labels":{{".":{{}},"f:app":{{}},"f:pod-template-hash":{{}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"web\"}}":{{".":{{}},"f:image":{{}},"f:imagePullPolicy":{{}},"f:name":{{}},"f:ports":{{}},"f:resources":{{}}}}}},"f:dnsPolicy":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}}}}}}}}"#
        )
    };
    let container = format!(
        r#"{{"name":"web","image":"registry.example.com/team/web:1.{number}","ports":[{{"containerPort":8080,"protocol":"TCP"}}],"env":[{{"name":"REGION","value":"eu-central-1"}},{{"name":"LEVEL","value":"info"}}],"resources":{{"limits":{{"cpu":"500m","memory":"256Mi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}},"imagePullPolicy":"IfNotPresent","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}}"#
    );
    format!(
        r#""metadata":{{"name":"web-7c5ddbdf54-{number:06}","namespace":"n{}","uid":"9f95def6-e6c9-462b-9314-{number:012}","resourceVersion":"{}","creationTimestamp":"2026-11-29T14:03:14Z","labels":{{"app":"web","pod-template-hash":"7c5ddbdf54"}},"annotations":{{"example.com/config-hash":"sha256:6f1ed002ab5595859014ebf0951522d9","example.com/owner":"team-web@example.com"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7c5ddbdf54","uid":"be1afe8a-79e9-4cf4-b024-dc87eb833121","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{},{}]}},"spec":{{"containers":[{container}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeName":"node-{}","schedulerName":"default-scheduler"}},"status":{{"phase":"Running","hostIP":"10.0.0.7","podIP":"10.1.2.3","qosClass":"Burstable","conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"2026-11-29T14:03:20Z"}},{{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-11-29T14:03:14Z"}}]}}"#,
        number % 20,
        1000 + number,
        fields("kube-controller-manager"),
        fields("kubelet"),
        number % 50,
    )
}

/// The bodies of the answers.
struct Answers {
    list: Vec<u8>,
    stream: Vec<u8>,
}

impl Answers {
    fn new(objects: usize) -> Self {
        let mut list = String::from(
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"99"},"items":["#,
        );
        let mut stream = String::new();
        for number in 0..objects {
            let pod = pod(number);
            list.push_str(if number > 0 { ",{" } else { "{" });
            list.push_str(&pod);
            list.push('}');
            stream.push_str(r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","#);
            stream.push_str(&pod);
            stream.push_str("}}\n");
        }
        list.push_str("]}\n");
        let meta = r#"{"resourceVersion":"99","annotations":{"k8s.io/initial-events-end":"true"}}"#;
        stream.push_str(&format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{meta}}}}}\n"));
        Self { list: list.into(), stream: stream.into() }
    }

    /// Answers what comes on one connection; streams stay open.
    fn serve(&self, mut connection: TcpStream) -> std::io::Result<()> {
        let mut head = [0; 4096];
        loop {
            let read = connection.read(&mut head)?;
            let text = String::from_utf8_lossy(head.get(..read).unwrap_or_default()).into_owned();
            let Some(target) = text.split(' ').nth(1) else { return Ok(()) };
            let discovery = br#"{"kind":"APIResourceList","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list","watch"]}]}"#;
            let (body, ends): (&[u8], _) = if target.contains("sendInitialEvents") {
                (&self.stream, false)
            } else if target.contains("watch=true") {
                (b"", false)
            } else if target.contains('?') {
                (&self.list, true)
            } else {
                (discovery, true)
            };
            connection.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for piece in body.chunks(16 * 1024) {
                connection.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
                connection.write_all(piece)?;
                connection.write_all(b"\r\n")?;
            }
            if ends {
                connection.write_all(b"0\r\n\r\n")?;
            }
        }
    }
}

/// A store that keeps the list and nothing else.
#[derive(Default)]
struct Kept(Mutex<Vec<Arc<Object>>>);

impl ReflectorStore for Kept {
    async fn add(&self, _: Arc<Object>) {}

    async fn update(&self, _: Arc<Object>) {}

    async fn delete(&self, _: Arc<Object>) {}

    fn replace(&self, objects: Vec<Arc<Object>>, _: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = objects;
    }

    fn bookmark(&self, _: &str) {}
}

/// Lists once; gives the processor time of this thread, which does all of the client's work, and the time in all.
async fn list(url: &str, initial_list: InitialList, objects: usize) -> Result<(Duration, Duration), Failure> {
    let client = Client::from_url(url, ClientLimits::default())?;
    let source = ListWatch::new(client, Selector::new("v1", "Pod"), Ingest::default());
    let store = Arc::new(Kept::default());
    let options = ReflectorOptions { initial_list, ..ReflectorOptions::default() };
    let reflector = Reflector::new(Arc::new(source), Arc::clone(&store), options);
    let mut status = reflector.status();
    let cancel = CancellationToken::new();
    let (begin, cpu) = (Instant::now(), thread_time()?);
    let running = tokio::spawn(reflector.run(cancel.clone()));
    status.wait_for(|status| status.phase == Phase::Watching).await?;
    let took = (thread_time()? - cpu, begin.elapsed());
    cancel.cancel();
    running.await?;
    let listed = store.0.lock().unwrap_or_else(PoisonError::into_inner).len();
    if listed == objects { Ok(took) } else { Err(format!("{listed} of {objects} objects").into()) }
}

fn thread_time() -> Result<Duration, Failure> {
    Ok(Duration::try_from(clock_gettime(ClockId::ThreadCPUTime))?)
}

fn main() -> Result<(), Failure> {
    let counts: Vec<usize> = std::env::args().skip(1).map(|count| count.parse()).collect::<Result<_, _>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("objects  bytes each  way            cpu ms  wall ms");
    for objects in if counts.is_empty() { vec![10_000, 50_000] } else { counts } {
        let answers = Arc::new(Answers::new(objects));
        let each = answers.list.len() / objects.max(1);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let answers = Arc::clone(&answers);
                // A connection that ends while it is written to has been measured.
                std::thread::spawn(move || answers.serve(connection).ok());
            }
        });
        for way in [InitialList::List, InitialList::StreamingList] {
            let mut least = (Duration::MAX, Duration::MAX);
            for _ in 0..ROUNDS {
                let (cpu, wall) = runtime.block_on(list(&url, way, objects))?;
                least = (least.0.min(cpu), least.1.min(wall));
            }
            let (cpu, wall) = (least.0.as_millis(), least.1.as_millis());
            println!("{objects:7}  {each:10}  {:13}  {cpu:6}  {wall:7}", format!("{way:?}"));
        }
    }
    Ok(())
}
