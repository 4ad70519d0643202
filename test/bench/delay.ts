/**
 * Passes connections on to a port after a delay, as a network does: `bun delay.ts PORT MS…` opens a listener for each number of
 * milliseconds that a round trip takes, prints their ports as JSON, and then a line for each number of connections that the first
 * listener has reached.
 */
import type { Socket } from "bun"

const [port, ...trips] = process.argv.slice(2).map(Number)
let most = 0

const listeners = trips.map((trip, at) => {
  let open = 0
  return Bun.listen<Passed>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(near) {
        open++
        if (at === 0 && open > most) {
          most = open
          process.stdout.write(`${most}\n`)
        }
        // A connection takes a round trip of its own before its first byte leaves.
        near.data = { from: performance.now() + trip, far: connect(near, trip) }
      },
      data({ data: { from, far } }, chunk) {
        const bytes = Buffer.from(chunk)
        setTimeout(() => far.then((socket) => socket.write(bytes)), Math.max(0, from - performance.now()) + trip / 2)
      },
      close({ data: { far } }) {
        open--
        void far.then((socket) => socket.end())
      },
    },
  })
})
process.stdout.write(`${JSON.stringify(listeners.map((listener) => listener.port))}\n`)
process.stdin.on("end", () => process.exit(0))
process.stdin.resume()

type Passed = { readonly from: number; readonly far: Promise<Socket> }

const connect = (near: Socket<Passed>, trip: number): Promise<Socket> =>
  Bun.connect({
    hostname: "127.0.0.1",
    port: port as number,
    socket: {
      data(_far, chunk) {
        const bytes = Buffer.from(chunk)
        setTimeout(() => near.write(bytes), trip / 2)
      },
      close: () => void near.end(),
    },
  })
