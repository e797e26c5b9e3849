;; other-world: a sound component of another world. It exports `greet`, and no handler of ours.
;; other-world.wasm beside it is this text, translated by `wasm-tools parse`.
(component
  (core module $greeter
    (func (export "greet") (result i32) i32.const 42))
  (core instance $greeter (instantiate $greeter))
  (func $greet (result u32) (canon lift (core func $greeter "greet")))
  (instance $greeting (export "greet" (func $greet)))
  (export "example:greeting/greeter@1.0.0" (instance $greeting)))
