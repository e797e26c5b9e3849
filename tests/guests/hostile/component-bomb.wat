;; component-bomb: a component that begins twice what begins twice what …, 30 times: 2^30 instances in 600 bytes.
(component
    (component $level-0 (core module $module) (core instance (instantiate $module)))
    ;;@ repeat 30
    (component $level-{n+1}
        (alias outer 1 $level-{n} (component $inner))
        (instance (instantiate $inner))
        (instance (instantiate $inner)))
    ;;@ end
    (instance (instantiate $level-30)))
