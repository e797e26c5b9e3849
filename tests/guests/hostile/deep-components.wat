;; deep-components: components in each other, 90 deep.
;;@ repeat 90
(component
;;@ end
;;@ repeat 90
)
;;@ end
