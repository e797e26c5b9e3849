;; large-data: it brings 60 MB of data along; the memory for them is within its cap.
(module
    (memory (export "memory") 1000)
    ;;@ include handler.inc.wat
    (func $event (result i32) (i32.const 64))
    ;;@ repeat 60
    (data (i32.const {n*1000000+70000})
        ;;@ bytes 1000000
    )
    ;;@ end
)
