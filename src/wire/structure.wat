;; Finds the end of a JSON object or array in bytes, 64 at a time: see structure.ts, which has this program compiled
;; (`bun scripts/structure.ts`). Per 64 bytes, each kind of byte becomes a mask of 64 bits:
;;   1. Quotes after an odd number of backslashes do not count.
;;   2. The running parity of the quotes is the mask of bytes in strings.
;;   3. Brackets outside of strings change the depth; they are counted one by one only if the depth may reach 0 or the limit.
(module
  (memory (export "memory") 2)
  (global $depth (mut i32) (i32.const 0))
  (global $escaped (mut i64) (i64.const 0))
  (global $inside (mut i64) (i64.const 0))
  ;; Begins another value.
  (func (export "begin") (global.set $depth (i32.const 0)) (global.set $escaped (i64.const 0)) (global.set $inside (i64.const 0)))
  ;; Returns the highest bits of 64 bytes.
  (func $bits (param $a v128) (param $b v128) (param $c v128) (param $d v128) (result i64)
    (i64.or
      (i64.or (i64.extend_i32_u (i8x16.bitmask (local.get $a))) (i64.shl (i64.extend_i32_u (i8x16.bitmask (local.get $b))) (i64.const 16)))
      (i64.or (i64.shl (i64.extend_i32_u (i8x16.bitmask (local.get $c))) (i64.const 32)) (i64.shl (i64.extend_i32_u (i8x16.bitmask (local.get $d))) (i64.const 48)))))
  ;; Takes the next bytes, a multiple of 64, at the beginning of the memory. Returns the offset of the byte that closes the value;
  ;; -1 for a control character in a string, or for more than `limit` levels; -2 if the value goes on.
  (func (export "scan") (param $length i32) (param $limit i32) (result i32)
    (local $at i32) (local $depth i32) (local $inside i64) (local $escaped i64)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local $slash i64) (local $quote i64) (local $follows i64) (local $starts i64) (local $sum i64) (local $string i64)
    (local $open i64) (local $close i64) (local $both i64) (local $bit i64)
    (local.set $depth (global.get $depth)) (local.set $inside (global.get $inside)) (local.set $escaped (global.get $escaped))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $length)))
        (local.set $a (v128.load (local.get $at)))
        (local.set $b (v128.load offset=16 (local.get $at)))
        (local.set $c (v128.load offset=32 (local.get $at)))
        (local.set $d (v128.load offset=48 (local.get $at)))
        (local.set $slash (call $bits
          (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x5c))) (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x5c)))
          (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x5c))) (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x5c)))))
        (local.set $quote (call $bits
          (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x22))) (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x22)))
          (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x22))) (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x22)))))
        (if (i64.eqz (local.get $slash))
          (then
            (local.set $quote (i64.and (local.get $quote) (i64.xor (local.get $escaped) (i64.const -1))))
            (local.set $escaped (i64.const 0)))
          (else
            (local.set $slash (i64.and (local.get $slash) (i64.xor (local.get $escaped) (i64.const -1))))
            (local.set $follows (i64.or (i64.shl (local.get $slash) (i64.const 1)) (local.get $escaped)))
            (local.set $starts (i64.and (i64.and (local.get $slash) (i64.const 0xaaaaaaaaaaaaaaaa)) (i64.xor (local.get $follows) (i64.const -1))))
            (local.set $sum (i64.add (local.get $starts) (local.get $slash)))
            (local.set $escaped (i64.extend_i32_u (i64.lt_u (local.get $sum) (local.get $slash))))
            (local.set $quote (i64.and (local.get $quote) (i64.xor (i64.const -1)
              (i64.and (i64.xor (i64.const 0x5555555555555555) (i64.shl (local.get $sum) (i64.const 1))) (local.get $follows)))))))
        (local.set $string (local.get $quote))
        (local.set $string (i64.xor (local.get $string) (i64.shl (local.get $string) (i64.const 1))))
        (local.set $string (i64.xor (local.get $string) (i64.shl (local.get $string) (i64.const 2))))
        (local.set $string (i64.xor (local.get $string) (i64.shl (local.get $string) (i64.const 4))))
        (local.set $string (i64.xor (local.get $string) (i64.shl (local.get $string) (i64.const 8))))
        (local.set $string (i64.xor (local.get $string) (i64.shl (local.get $string) (i64.const 16))))
        (local.set $string (i64.xor (local.get $string) (i64.shl (local.get $string) (i64.const 32))))
        (local.set $string (i64.xor (local.get $string) (local.get $inside)))
        (local.set $inside (i64.shr_s (local.get $string) (i64.const 63)))
        ;; Control characters outside of strings are white space.
        (if (v128.any_true (v128.or
              (v128.or (i8x16.lt_u (local.get $a) (i8x16.splat (i32.const 0x20))) (i8x16.lt_u (local.get $b) (i8x16.splat (i32.const 0x20))))
              (v128.or (i8x16.lt_u (local.get $c) (i8x16.splat (i32.const 0x20))) (i8x16.lt_u (local.get $d) (i8x16.splat (i32.const 0x20))))))
          (then
            (if (i64.ne (i64.const 0) (i64.and (local.get $string) (call $bits
                (i8x16.lt_u (local.get $a) (i8x16.splat (i32.const 0x20))) (i8x16.lt_u (local.get $b) (i8x16.splat (i32.const 0x20)))
                (i8x16.lt_u (local.get $c) (i8x16.splat (i32.const 0x20))) (i8x16.lt_u (local.get $d) (i8x16.splat (i32.const 0x20))))))
              (then (return (i32.const -1))))))
        (if (i64.ne (local.get $string) (i64.const -1))
          (then
            (local.set $a (v128.or (local.get $a) (i8x16.splat (i32.const 0x20))))
            (local.set $b (v128.or (local.get $b) (i8x16.splat (i32.const 0x20))))
            (local.set $c (v128.or (local.get $c) (i8x16.splat (i32.const 0x20))))
            (local.set $d (v128.or (local.get $d) (i8x16.splat (i32.const 0x20))))
            (local.set $string (i64.xor (local.get $string) (i64.const -1)))
            (local.set $open (i64.and (local.get $string) (call $bits
              (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x7b))) (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x7b)))
              (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x7b))) (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x7b))))))
            (local.set $close (i64.and (local.get $string) (call $bits
              (i8x16.eq (local.get $a) (i8x16.splat (i32.const 0x7d))) (i8x16.eq (local.get $b) (i8x16.splat (i32.const 0x7d)))
              (i8x16.eq (local.get $c) (i8x16.splat (i32.const 0x7d))) (i8x16.eq (local.get $d) (i8x16.splat (i32.const 0x7d))))))
            (if (i32.and
                  (i32.gt_s (i32.sub (local.get $depth) (i32.wrap_i64 (i64.popcnt (local.get $close)))) (i32.const 0))
                  (i32.le_s (i32.add (local.get $depth) (i32.wrap_i64 (i64.popcnt (local.get $open)))) (local.get $limit)))
              (then
                (local.set $depth (i32.add (local.get $depth) (i32.sub (i32.wrap_i64 (i64.popcnt (local.get $open))) (i32.wrap_i64 (i64.popcnt (local.get $close)))))))
              (else
                (local.set $both (i64.or (local.get $open) (local.get $close)))
                (block $counted
                  (loop $count
                    (br_if $counted (i64.eqz (local.get $both)))
                    (local.set $bit (i64.and (local.get $both) (i64.sub (i64.const 0) (local.get $both))))
                    (local.set $both (i64.xor (local.get $both) (local.get $bit)))
                    (if (i64.ne (i64.const 0) (i64.and (local.get $bit) (local.get $open)))
                      (then
                        (local.set $depth (i32.add (local.get $depth) (i32.const 1)))
                        (if (i32.gt_s (local.get $depth) (local.get $limit)) (then (return (i32.const -1)))))
                      (else
                        (local.set $depth (i32.sub (local.get $depth) (i32.const 1)))
                        (if (i32.le_s (local.get $depth) (i32.const 0))
                          (then (return (i32.add (local.get $at) (i32.wrap_i64 (i64.ctz (local.get $bit)))))))))
                    (br $count)))))))
        (local.set $at (i32.add (local.get $at) (i32.const 64)))
        (br $next)))
    (global.set $depth (local.get $depth)) (global.set $inside (local.get $inside)) (global.set $escaped (local.get $escaped))
    (i32.const -2)))
