/** Numbers as other languages write them: a double would change most of these. */
import fc from "fast-check"

/** Numbers that are known to have been changed by some program. */
export const ODD_NUMBERS = [
  "9007199254740993",
  "-9007199254740993",
  "12345678901234567890",
  "1.0",
  "-0",
  "-0.0",
  "1e400",
  "-1E+400",
  "1E5",
  "1.50",
  "0.0000001",
  "1e-7",
  "1e21",
  "100000000000000000000000",
  "0.1000000000000000055511151231257827",
] as const

const digits = (minLength: number, maxLength: number) =>
  fc.string({ unit: fc.constantFrom(..."0123456789"), minLength, maxLength })
const joined = (...parts: fc.Arbitrary<string>[]) => fc.tuple(...parts).map((written) => written.join(""))
const natural = fc.oneof(fc.constant("0"), joined(fc.constantFrom(..."123456789"), digits(0, 24)))
const fraction = fc.oneof(
  fc.constant(""),
  digits(1, 24).map((some) => `.${some}`),
  digits(0, 3).map((some) => `.00000${some}0`),
)
const exponent = fc.oneof(
  { weight: 3, arbitrary: fc.constant("") },
  { weight: 1, arbitrary: joined(fc.constantFrom("e", "E"), fc.constantFrom("", "+", "-"), digits(1, 3)) },
)

/** Returns the text of a random JSON number. */
export const NUMBER: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(...ODD_NUMBERS),
  joined(fc.constantFrom("", "-"), natural, fraction, exponent),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
  fc.integer().map(String),
)

/** Returns random JSON text that is full of numbers, without white space and without repeated names. */
export const NUMBERS: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    NUMBER,
    fc.array(tie("value"), { maxLength: 3 }).map((items) => `[${items.join()}]`),
    fc.array(tie("value"), { maxLength: 3 }).map((items) => `{${items.map((item, at) => `"m${at}":${item}`).join()}}`),
  ),
})).value
