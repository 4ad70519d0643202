/** `svc upgrade`: replaces this program with another release, or restores the previous one. */
import { existsSync, readFileSync, realpathSync } from "node:fs"
import type { CommandDef } from "citty"
import { findRelease, releaseFile } from "../features/system/release-download.ts"
import { installRelease, packageManagerOf, previousOf, rollBack } from "../features/system/upgrade.ts"
import { delay, systemClock } from "../lib/clock.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { print, say } from "../lib/output.ts"
import { ownCommand } from "../lib/own-command.ts"
import { releaseKey, releasesUrl } from "../lib/release.ts"
import { version } from "../lib/version.ts"
import { callControl } from "../serve/control-socket.ts"
import type { Paths } from "../store/paths.ts"
import { listRunning, pathsOfRunning, runningFolder } from "../store/running.ts"
import { isObject } from "../wire/message.ts"

export const upgrade: CommandDef = {
  meta: {
    name: "upgrade",
    description: "Replace svc with the latest release, after checking the signature",
  },
  args: {
    check: { type: "boolean", description: "Only report whether another release is available" },
    version: { type: "string", description: "Version to install, newer or older (default: the latest)" },
    rollback: { type: "boolean", description: "Restore the program that the last upgrade replaced" },
    releases: {
      type: "string",
      description: "URL of the folder with the files of the latest release (default: that of this program)",
    },
    json: { type: "boolean", description: "Print JSON" },
  },
  async run({ args }) {
    const option = readOptions(args, process.env)
    const wanted = readOptions({ version: args.version }, {}).text("version")?.replace(/^v/, "")
    const asJson = args.json === true
    if (args.rollback === true && (args.check === true || wanted !== undefined))
      throw usageError("--rollback cannot be combined with --check or --version; leave these out")
    const program = ownProgram("upgrade")
    if (args.rollback === true) {
      const now = await rollBack(program)
      print(asJson, { from: version, to: now }, () =>
        Bun.semver.order(now, version) > 0
          ? `svc is ${now} again, instead of ${version}: this has undone the last rollback`
          : `svc is ${now} again, instead of ${version}`,
      )
      await renewRunning(program)
      return 0
    }
    const releases = option.text("releases")?.replace(/\/+$/, "") ?? releasesUrl
    if (releases === undefined)
      throw new UnavailableError(
        "this build of svc has no URL of releases; give one with --releases, or build svc from source again",
      )
    const source = {
      program,
      file: releaseFile(process.platform, process.arch, isMusl()),
      releases,
      key: releaseKey,
    }
    const release = await findRelease(source, wanted)
    const found = release.version
    const isOlder = (other: string) => Bun.semver.order(other, version) < 0
    const isNews =
      !release.isInstalled &&
      (found === undefined || wanted !== undefined ? found !== version : !(found === version || isOlder(found)))
    if (args.check === true || !isNews) {
      print(asJson, { version, ...(found === undefined ? {} : { release: found }), available: isNews }, () => {
        if (isNews)
          return `${found === undefined ? "another release of svc" : `svc ${found}`} is available (this is ${version}); \`svc upgrade\` installs it`
        if (found !== undefined && isOlder(found)) return `svc ${version} is newer than the latest release, ${found}`
        return `svc ${version} is ${wanted === undefined ? "the latest release" : "already installed"}`
      })
      return 0
    }
    if (!asJson) say(`downloading ${release.url}`)
    const installed = await installRelease(program, release, (other) =>
      wanted === undefined ? !isOlder(other) : other === wanted,
    )
    print(
      asJson,
      { from: version, to: installed },
      () =>
        `svc ${installed} is installed instead of ${version}; \`svc upgrade --rollback\` undoes this (${previousOf(program)})`,
    )
    if (releaseKey === undefined)
      say("warning: this build of svc has no key for releases: it checked the SHA-256, but no signature")
    await renewRunning(program)
    return 0
  },
}

/**
 * Returns the path of this program. Throws an UnavailableError if svc runs from source, or a package manager has installed
 * it.
 */
export function ownProgram(verb: "upgrade" | "uninstall"): string {
  if (ownCommand().length > 1)
    throw new UnavailableError(`svc runs from source here, where \`svc ${verb}\` has nothing to change`)
  const program = realpathSync(process.execPath)
  const manager = packageManagerOf(program, existsSync)
  if (manager === undefined) return program
  const first = verb === "upgrade" ? "" : "; restore the files of connected clients first: `svc connect CLIENT --undo`"
  throw new UnavailableError(`${program} was installed by a package manager: ${verb} it with ${manager}${first}`)
}

// ---

/** Whether this process runs with musl. An installed loader of musl proves nothing: Debian has a package with it. */
function isMusl(): boolean {
  try {
    return readFileSync("/proc/self/maps", "utf8").includes("/ld-musl-")
  } catch {
    // Not Linux.
    return false
  }
}

/** Lets the new program take over from each running svc, and says which ones stay on the old version until they start again. */
async function renewRunning(program: string): Promise<void> {
  const home = homeDirectory()
  for (const running of listRunning(runningFolder(home, process.env.APPDATA, process.platform))) {
    const { pid } = running
    const stays = (why: string) =>
      say(`process ${pid} stays on the old version until it starts again: ${why}; see \`svc ps\``)
    if (process.platform !== "linux") {
      stays("this system cannot let another process take over")
      continue
    }
    try {
      const paths = pathsOfRunning(running, home)
      const answer = await callControl(paths, "takeover", { program }, TAKEOVER_MS)
      if (!isObject(answer)) continue
      say(`process ${pid} hands over to process ${answer.pid}, which runs the new version; no call fails`)
      await untilInstance(paths, answer.pid)
    } catch (error) {
      stays(messageOf(error))
    }
  }
}

/** Resolves when a process answers svc's commands, so that the next command finds it, or after ANSWER_MS: calls may still run. */
async function untilInstance(paths: Paths, pid: unknown): Promise<void> {
  const until = systemClock.now() + ANSWER_MS
  while (systemClock.now() < until) {
    const answer = await callControl(paths, "hello", {}, HELLO_MS).catch(() => undefined)
    if (isObject(answer) && answer.pid === pid) return
    await delay(systemClock, POLL_MS)
  }
}

/** Longer than an svc may take to listen. */
const TAKEOVER_MS = 90_000
const ANSWER_MS = 10_000
const HELLO_MS = 1000
const POLL_MS = 20
