/** Returns a function that makes a value at its first call and returns the same value at every call: a start does not pay for what it does not use. */
export function lazy<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
