/** Returns a function that makes a value on its first call and returns that value on every call. Saves work at a start. */
export function lazy<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
