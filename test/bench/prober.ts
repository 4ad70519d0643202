/** Asks an address one request after the other. Prints the longest gap between two answers, in milliseconds, for each line on stdin. */
const [url = ""] = process.argv.slice(2)
let gap = 0
let isDone = false
let isAsked = false
process.stdin.on("data", () => {
  isAsked = true
})
process.stdin.on("end", () => {
  isDone = true
})
for (let last = performance.now(); !isDone; ) {
  await (await fetch(url)).text()
  const now = performance.now()
  gap = Math.max(gap, now - last)
  last = now
  // Only now: the answer that was waited for may be the late one.
  if (isAsked) {
    process.stdout.write(`${gap}\n`)
    isAsked = false
    gap = 0
  }
}
