;; type-bomb: a component with a type that holds twice what holds twice what …, 40 times.
(component
    (type $pair-0 u8)
    ;;@ repeat 40
    (type $pair-{n+1} (tuple $pair-{n} $pair-{n}))
    ;;@ end
    (import "bomb" (func (param "bomb" $pair-40))))
