/** The memory and the processor time of process trees on this machine. */
import { readdirSync, readFileSync } from "node:fs"

/** What a process and its descendants use: resident memory in bytes, and processor time since their start in milliseconds. */
export type ProcessUsage = { readonly memory: number; readonly cpu: number }

/** Returns what the trees of these processes use, by the ids of their roots; nothing where the system does not tell. */
export function usageOf(roots: readonly number[]): ReadonlyMap<number, ProcessUsage> {
  if (roots.length === 0) return new Map()
  const all = processes()
  const children = Map.groupBy(all.values(), ({ parent }) => parent)
  return new Map(
    roots.flatMap((root) => {
      const own = all.get(root)
      if (own === undefined) return []
      const tree = [own]
      for (const { pid } of tree) if (tree.length < MAX_TREE) tree.push(...(children.get(pid) ?? []))
      const sum = (of: (one: OneProcess) => number) => tree.reduce((total, one) => total + of(one), 0)
      return [[root, { memory: sum(({ memory }) => memory), cpu: sum(({ cpu }) => cpu) }] as const]
    }),
  )
}

/** Returns an amount of memory for people: `87 MB`. */
export const memoryText = (bytes: number): string =>
  bytes < 1024 ** 3 ? `${Math.round(bytes / 1024 ** 2)} MB` : `${(bytes / 1024 ** 3).toFixed(1)} GB`

// ---

type OneProcess = ProcessUsage & { readonly pid: number; readonly parent: number }

const MAX_TREE = 1000
/** Ticks of the kernel per second, and the size of a page: the same on all common Linux systems. */
const TICK_MS = 10
const PAGE_BYTES = process.arch === "arm64" && process.platform === "darwin" ? 16_384 : 4096

function processes(): ReadonlyMap<number, OneProcess> {
  const found = process.platform === "linux" ? fromProc() : fromPs()
  return new Map(found.map((one) => [one.pid, one]))
}

function fromProc(): readonly OneProcess[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const text = readFileSync(`/proc/${name}/stat`, "latin1")
      // The name of the program, in parentheses, may contain anything.
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
      const [parent, user, system, pages] = [1, 11, 12, 21].map((at) => Number(fields[at]))
      return [
        {
          pid: Number(name),
          parent: parent ?? 0,
          memory: (pages ?? 0) * PAGE_BYTES,
          cpu: ((user ?? 0) + (system ?? 0)) * TICK_MS,
        },
      ]
    } catch {
      // The process has ended meanwhile.
      return []
    }
  })
}

/** Reads the table of `ps`; nothing on Windows, which has none. */
function fromPs(): readonly OneProcess[] {
  if (process.platform === "win32") return []
  const { stdout } = Bun.spawnSync(["ps", "-axo", "pid=,ppid=,rss=,time="], { stderr: "ignore", timeout: PS_MS })
  return stdout
    .toString()
    .split("\n")
    .flatMap((line) => {
      const [pid, parent, kilobytes, time] = line.trim().split(/\s+/)
      if (pid === undefined || time === undefined) return []
      return [{ pid: Number(pid), parent: Number(parent), memory: Number(kilobytes) * 1024, cpu: millisecondsOf(time) }]
    })
}

const PS_MS = 2000

/** Returns a time of `ps` in milliseconds: `[[dd-]hh:]mm:ss[.cc]`. */
export function millisecondsOf(time: string): number {
  const [days, rest] = time.includes("-") ? time.split("-") : ["0", time]
  const seconds = (rest ?? "").split(":").reduce((sum, part) => sum * 60 + Number(part), 0)
  return Math.round((Number(days) * 86_400 + seconds) * 1000)
}
