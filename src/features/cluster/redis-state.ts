/**
 * Shared state in Redis or Valkey, through Bun's client.
 *
 *  1. Two connections, because a connection with a subscription accepts no other commands. They are opened and closed together.
 *  2. Bun's own reconnection is off: it does not subscribe again, and reports nothing. svc opens new connections instead.
 *  3. A message to itself every second shows that both connections work. A silent connection, for example behind a network that
 *     drops packets, is closed after SILENT_MS.
 *  4. A change of several steps is one script, which Redis runs atomically.
 *  5. If Redis has become a read-only replica, svc connects again: its name may point to another Redis by now. If it refuses
 *     changes for another reason (its memory is full), svc stays connected, and tries a change every second until one succeeds.
 */
import { RedisClient } from "bun"
import { Backoff } from "../../lib/backoff.ts"
import type { Clock } from "../../lib/clock.ts"
import { messageOf, UnavailableError } from "../../lib/errors.ts"
import { adviceFor, findProblem } from "./redis-problem.ts"
import type { Lease, RecordGroup, SharedRecord, SharedState, TakenLease, WindowCount } from "./shared-state.ts"

export type RedisOptions = {
  /** The URL, with its port, and with user, password and database, if any. */
  readonly url: string
  /** The prefix of all keys and channels. */
  readonly prefix: string
  readonly clock: Clock
  /** Returns unguessable text, for a channel of this process. */
  newId(): string
  /** Called with the reason and what to do when the connection is lost or refused; once for each reason until it is back. */
  onproblem(reason: string): void
  /** Called once with the eviction policy of Redis if it deletes keys when memory is full. */
  onevicting(policy: string): void
  /** Called when Redis accepts changes again after it refused them. */
  onaccepting(): void
  /** Called with the reason if Redis runs in a mode that svc cannot use. svc tries again as after a loss. */
  onunfit(reason: string): void
}

/** Starts to connect, and returns the state, which stays connected until it is closed. */
export function openRedisState(options: RedisOptions): SharedState {
  return new RedisState(options)
}

// ---

/** Two open connections. */
type Link = { readonly commands: RedisClient; readonly subscriber: RedisClient }

class RedisState implements SharedState {
  private link: Link | undefined
  /** The connections that are being opened, or are open. */
  private attempt: Link | undefined
  private isClosed = false
  private readonly backoff = new Backoff({ first: FIRST_RETRY_MS, max: MAX_RETRY_MS })
  private readonly messageListeners = new Set<(text: string) => void>()
  private readonly stateListeners = new Set<(connected: boolean) => void>()
  private readonly channel: string
  private readonly ownChannel: string
  private lastHeard = 0
  /** The reasons reported since the connection was lost or refused. */
  private readonly reported = new Set<string>()
  private hasReportedPolicy = false
  private isRefusing = false
  /** The number of commands that wait for their answers. */
  private pending = 0
  private cancelTimer: () => void = () => undefined

  constructor(private readonly options: RedisOptions) {
    this.channel = `${options.prefix}messages${databaseOf(options.url)}`
    this.ownChannel = `${options.prefix}beat:${options.newId()}`
    void this.connect()
  }

  get connected(): boolean {
    return this.link !== undefined
  }

  get refusing(): boolean {
    return this.isRefusing
  }

  async read(key: string, fields?: readonly string[]): Promise<SharedRecord | undefined> {
    if (fields !== undefined) {
      const values = (await this.run(READ, [key], fields)) as readonly (string | null)[] | null
      if (values === null) return undefined
      return Object.fromEntries(fields.flatMap((field, at) => (values[at] == null ? [] : [[field, values[at]]])))
    }
    const found = (await this.send("HGETALL", [this.keyOf(key)])) as SharedRecord
    return Object.keys(found).length === 0 ? undefined : found
  }

  async write(...[key, changes, { ttl, require, group } = {}]: Parameters<SharedState["write"]>): Promise<boolean> {
    const entries = Object.entries(changes)
    const sets = entries.flatMap(([field, value]) => (value === undefined ? [] : [field, value]))
    const removed = entries.flatMap(([field, value]) => (value === undefined ? [field] : []))
    const lasts = ttl === undefined ? "" : String(Math.ceil(ttl))
    const about = [require ?? "", lasts, String(group?.most ?? ""), String(sets.length)]
    return (await this.run(WRITE, [key, ...groupKeys(group)], [...about, ...sets, ...removed])) === 1
  }

  async swap(key: string, field: string, expected: string | undefined, next: string): Promise<boolean> {
    return (await this.run(SWAP, [key], [field, expected === undefined ? "" : `=${expected}`, next])) === 1
  }

  async remove(key: string, group?: RecordGroup): Promise<boolean> {
    return (await this.run(REMOVE, [key, ...groupKeys(group)], [])) === 1
  }

  async take(key: string, perMinute: number): Promise<number | undefined> {
    const wait = await this.run(TAKE, [`rate:${key}`], [String(perMinute)])
    return wait === 0 ? undefined : Number(wait)
  }

  async count(key: string, windowMs: number): Promise<WindowCount> {
    const [count = 0, endsIn = 0] = (await this.run(COUNT, [`window:${key}`], [String(windowMs)])) as readonly number[]
    return { count, endsIn }
  }

  async lease(name: string, holder: string, ttl: number, seen = 0): Promise<Lease | TakenLease> {
    const keys = [`lease:${name}`, `fence:${name}`]
    const found = await this.run(ACQUIRE, keys, [holder, String(ttl), String(seen)])
    const [token, by, remaining] = found as readonly [number | string, string?, number?]
    if (by !== undefined)
      return { kind: "taken", token: Number(token), holder: by, remaining: Math.max(0, remaining ?? 0) }
    const own = [String(token), String(ttl), holder]
    return {
      kind: "own",
      token: Number(token),
      renew: async () => (await this.run(RENEW, keys, own)) === 1,
      release: async () => void (await this.run(RELEASE, keys.slice(0, 1), own.slice(0, 1))),
    }
  }

  async publish(text: string): Promise<void> {
    await this.send("PUBLISH", [this.channel, text])
  }

  onmessage(listener: (text: string) => void): () => void {
    this.messageListeners.add(listener)
    return () => void this.messageListeners.delete(listener)
  }

  onstate(listener: (connected: boolean) => void): () => void {
    this.stateListeners.add(listener)
    return () => void this.stateListeners.delete(listener)
  }

  close(): void {
    this.isClosed = true
    this.cancelTimer()
    const { attempt } = this
    this.attempt = undefined
    this.link = undefined
    if (attempt !== undefined) closeLink(attempt)
  }

  // ---

  private keyOf(key: string): string {
    return this.options.prefix + key
  }

  private run(script: string, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.send("EVAL", [script, String(keys.length), ...keys.map((key) => this.keyOf(key)), ...args])
  }

  private async send(command: string, args: string[]): Promise<unknown> {
    const { link } = this
    if (link === undefined || this.pending >= MAX_PENDING) throw unreachable()
    this.pending++
    try {
      return await link.commands.send(command, args)
    } catch (cause) {
      this.refused(link, cause)
      throw unreachable(cause)
    } finally {
      this.pending--
    }
  }

  /** Rule 5. */
  private refused(link: Link, cause: unknown): void {
    if (this.link !== link) return
    // Redis appends the script's hash.
    const reason = messageOf(cause).replace(/\.? script: .*/s, "")
    if (reason.startsWith("READONLY")) {
      this.lose(link, READ_ONLY)
      return
    }
    // A closed connection is reported as lost a moment later.
    this.isRefusing = /^[A-Z]+ /.test(reason)
    this.report(reason)
  }

  private async connect(): Promise<void> {
    const { clock, url } = this.options
    const settings = { autoReconnect: false, enableOfflineQueue: false, connectionTimeout: CONNECT_MS }
    const link: Link = { commands: new RedisClient(url, settings), subscriber: new RedisClient(url, settings) }
    const lost = (reason: unknown) => this.lose(link, reason)
    // Bun may neither resolve nor reject: the timer ends such an attempt.
    this.cancelTimer = clock.after(2 * CONNECT_MS, () => lost("no answer"))
    this.attempt = link
    try {
      await Promise.all([link.commands.connect(), link.subscriber.connect()])
      const { mode, isReadOnly, policy } = await kindOf(link.commands)
      const unfit = UNFIT[mode]
      if (unfit !== undefined) {
        if (this.attempt === link) this.options.onunfit(unfit)
        throw new Error(unfit)
      }
      if (isReadOnly) throw new Error(READ_ONLY)
      if (policy !== "" && policy !== "noeviction" && !this.hasReportedPolicy) {
        this.hasReportedPolicy = true
        this.options.onevicting(policy)
      }
      await link.subscriber.subscribe(this.channel, (text) => {
        for (const listener of this.messageListeners) listener(text)
      })
      await link.subscriber.subscribe(this.ownChannel, () => {
        this.lastHeard = clock.now()
      })
    } catch (error) {
      lost(error)
      return
    }
    if (this.attempt !== link) {
      closeLink(link)
      return
    }
    link.commands.onclose = lost
    link.subscriber.onclose = lost
    this.cancelTimer()
    this.backoff.reset()
    this.reported.clear()
    this.isRefusing = false
    this.lastHeard = clock.now()
    this.link = link
    this.watch(link)
    for (const listener of this.stateListeners) listener(true)
  }

  /** Closes the connections, and opens new ones after a delay. */
  private lose(link: Link, reason: unknown): void {
    if (this.attempt !== link) return
    this.attempt = undefined
    this.cancelTimer()
    closeLink(link)
    const wasConnected = this.link === link
    this.link = undefined
    if (messageOf(reason) === READ_ONLY) this.report(READ_ONLY)
    else
      void findProblem(this.options.url, this.options.clock).then((why) => {
        if (this.link === undefined) this.report(why ?? messageOf(reason))
      })
    this.cancelTimer = this.options.clock.after(this.backoff.next(), () => void this.connect())
    if (wasConnected) for (const listener of this.stateListeners) listener(false)
  }

  private watch(link: Link): void {
    const { clock } = this.options
    const from = clock.now()
    this.cancelTimer = clock.after(BEAT_MS, () => {
      // A process that was suspended could not hear its own messages.
      if (clock.now() - from > SILENT_MS) this.lastHeard = clock.now()
      if (clock.now() - this.lastHeard > SILENT_MS) {
        this.lose(link, "no answer")
        return
      }
      link.commands.send("PUBLISH", [this.ownChannel, ""]).catch((error: unknown) => this.refused(link, error))
      if (this.isRefusing) this.tryChange()
      this.watch(link)
    })
  }

  private tryChange(): void {
    this.write("probe", { at: "" }, { ttl: BEAT_MS }).then(
      () => {
        if (!this.isRefusing) return
        this.isRefusing = false
        this.reported.clear()
        this.options.onaccepting()
      },
      () => undefined,
    )
  }

  private report(text: string): void {
    const reason = text.replace(/\.$/, "")
    if (this.isClosed || this.reported.has(reason)) return
    this.reported.add(reason)
    this.options.onproblem(`${reason}${adviceFor(reason, this.options.prefix)}`)
  }
}

/** Returns a suffix for channels that separates databases: unlike keys, channels are shared by all databases of a Redis. */
function databaseOf(url: string): string {
  const database = Number(new URL(url).pathname.slice(1))
  return database > 0 ? `:${database}` : ""
}

/** Why svc cannot use Redis in a mode: it refuses commands of svc, in a cluster only for some keys. */
const UNFIT: Readonly<Record<string, string>> = {
  cluster:
    "it is a node of a Redis Cluster, which holds only a part of the keys; name a Redis or Valkey that is not in a cluster",
  sentinel: "it is a Sentinel, which holds no keys; name the primary that it watches, or a proxy that follows it",
}

/** What a Redis reports about itself; a text is empty if it does not. */
type RedisKind = { readonly mode: string; readonly isReadOnly: boolean; readonly policy: string }

/** Resolves with the mode of Redis or Valkey, whether it is a read-only replica, and its eviction policy. */
async function kindOf(client: RedisClient): Promise<RedisKind> {
  // The user may not be allowed to run INFO.
  const text = String(await client.send("INFO", []).catch(() => ""))
  const mode = /^(?:redis|server)_mode:(\w+)/m.exec(text)?.[1] ?? ""
  const policy = /^maxmemory_policy:([\w-]+)/m.exec(text)?.[1] ?? ""
  return { mode, isReadOnly: /^slave_read_only:1/m.test(text), policy }
}

const READ_ONLY = "it is a read-only replica of another Redis; name the primary, or a proxy that follows it"
/** The most commands that wait at once: Redis may not answer for SILENT_MS. */
const MAX_PENDING = 10_000
const FIRST_RETRY_MS = 100
const MAX_RETRY_MS = 1000
const CONNECT_MS = 2000
const BEAT_MS = 1000
const SILENT_MS = 3000
/** Seconds after which clients try again. */
const RETRY_AFTER_S = 2

const unreachable = (cause?: unknown): UnavailableError =>
  new UnavailableError("The state that the replicas of svc share cannot be reached; try again in a moment", {
    cause,
    retryAfter: RETRY_AFTER_S,
  })

function closeLink({ commands, subscriber }: Link): void {
  for (const client of [commands, subscriber]) {
    client.onclose = null
    client.close()
  }
}

const groupKeys = (group: RecordGroup | undefined): string[] => (group === undefined ? [] : [`group:${group.name}`])

/** ARGV: fields. Returns their values, or nothing if there is no record. */
const READ = `
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
return redis.call('HMGET', KEYS[1], unpack(ARGV))`

/**
 * KEYS: record, group if any. ARGV: requirement, ttl, the most records of the group, number of arguments that set fields,
 * fields with their values, fields to remove. The group orders its records by the time of their last write; a record in it may
 * have expired. A Redis without free memory still extends the ttl of records.
 */
const WRITE = `
local exists = redis.call('EXISTS', KEYS[1])
if (ARGV[1] == 'absent' and exists == 1) or (ARGV[1] == 'present' and exists == 0) then return 0 end
if KEYS[2] then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  if exists == 1 then redis.pcall('ZADD', KEYS[2], now, KEYS[1]) else redis.call('ZADD', KEYS[2], now, KEYS[1]) end
  if ARGV[2] ~= '' then redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[2] * 1000) end
  local over = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[3])
  if over > 0 then
    for _, key in ipairs(redis.call('ZRANGE', KEYS[2], 0, over - 1)) do redis.call('DEL', key) end
    redis.call('ZREMRANGEBYRANK', KEYS[2], 0, over - 1)
  end
  if ARGV[2] ~= '' then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
end
local last = 4 + tonumber(ARGV[4])
for at = 5, last, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
for at = last + 1, #ARGV do redis.call('HDEL', KEYS[1], ARGV[at]) end
if ARGV[2] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1`

/** KEYS: record, group if any. */
const REMOVE = `
if KEYS[2] then redis.call('ZREM', KEYS[2], KEYS[1]) end
return redis.call('DEL', KEYS[1])`

/** ARGV: field, '=' and the expected value or '' for none, the new value. */
const SWAP = `
local value = redis.call('HGET', KEYS[1], ARGV[1])
if (value and '=' .. value or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1`

/** ARGV: calls per minute. Returns the seconds to wait, 0 for none. The clock of Redis may go back. */
const TAKE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local rate = tonumber(ARGV[1])
local bucket = redis.call('HMGET', KEYS[1], 'left', 'at')
local passed = math.max(0, now - (tonumber(bucket[2]) or now))
local left = math.min(rate, (tonumber(bucket[1]) or rate) + passed * rate / 60000)
local wait = 0
if left < 1 then wait = math.max(1, math.ceil((1 - left) * 60 / rate)) else left = left - 1 end
redis.call('HSET', KEYS[1], 'left', tostring(left), 'at', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], 120000)
return wait`

/** ARGV: milliseconds of the window. Returns the count and the milliseconds that are left. The clock of Redis may go back. */
const COUNT = `
local count = redis.call('INCR', KEYS[1])
if count == 1 or redis.call('PTTL', KEYS[1]) > tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {count, redis.call('PTTL', KEYS[1])}`

/**
 * KEYS: lease, counter. ARGV: holder, ttl, the largest token that the caller has seen. Returns the token; if the lease is taken,
 * also its holder and the milliseconds that are left of it.
 */
const ACQUIRE = `
if redis.call('EXISTS', KEYS[1]) == 0 then
  local holder, token = ARGV[1], nil
  if tonumber(redis.call('GET', KEYS[2]) or '0') >= tonumber(ARGV[3]) then
    token = redis.call('INCR', KEYS[2])
  else
    holder, token = '', ARGV[3]
    redis.call('SET', KEYS[2], token)
  end
  redis.call('HSET', KEYS[1], 'token', token, 'holder', holder)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  if holder ~= '' then return {token} end
end
return {redis.call('HGET', KEYS[1], 'token'), redis.call('HGET', KEYS[1], 'holder'), redis.call('PTTL', KEYS[1])}`

/**
 * KEYS: lease, counter. ARGV: token, ttl, holder. In the usual case it writes nothing that a Redis without free memory
 * refuses.
 */
const RENEW = `
local token = redis.call('HGET', KEYS[1], 'token')
if token ~= ARGV[1] then
  if token or tonumber(redis.call('GET', KEYS[2]) or '0') >= tonumber(ARGV[1]) then return 0 end
  redis.call('SET', KEYS[2], ARGV[1])
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'holder', ARGV[3])
elseif redis.call('HGET', KEYS[1], 'holder') ~= ARGV[3] then
  redis.call('HSET', KEYS[1], 'holder', ARGV[3])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`

/** ARGV: token. */
const RELEASE = `
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`
