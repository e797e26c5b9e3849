;; deep-type: a component with a type that is a list of lists of lists …, 2,000 times.
(component
    (type $list-0 u8)
    ;;@ repeat 2000
    (type $list-{n+1} (list $list-{n}))
    ;;@ end
    (import "deep" (func (param "deep" $list-2000))))
