/** `svc config import`: takes over the servers of other applications. Shows first, asks, and never overwrites a name. */
import { existsSync, readFileSync } from "node:fs"
import { resolve } from "node:path"
import type { CommandDef } from "citty"
import { addServer, type Edit, writtenServers } from "../config/edit.ts"
import { APPLICATIONS, type Application, type Found, filesOf, isSvc, readForeign } from "../config/import.ts"
import { slugOf } from "../config/plan.ts"
import { homeDirectory } from "../config/project.ts"
import { createMissing, editConfig, readTexts } from "../config/store.ts"
import { systemClock } from "../lib/clock.ts"
import { ConfigError, messageOf, RequestError } from "../lib/errors.ts"
import { isObject } from "../wire/message.ts"
import { agrees, canAsk } from "./ask.ts"
import { usage } from "./command.ts"
import { print, say, table } from "./output.ts"
import { PLACE_ARGS, placeOf } from "./place.ts"

export const importServers: CommandDef = {
  meta: { name: "import", description: `Take over servers from ${APPLICATIONS.join(", ")} or a file` },
  args: {
    from: { type: "positional", required: false, description: "An application or a file (default all applications)" },
    ...PLACE_ARGS,
    yes: { type: "boolean", alias: "y", description: "Do not ask" },
    "dry-run": { type: "boolean", description: "Only show what would be added" },
  },
  async run({ args }) {
    const { paths, ask } = placeOf(args)
    const status = await ask("status").catch(() => undefined)
    const address = isObject(status) && typeof status.url === "string" ? status.url : "http://127.0.0.1:3050/"
    const files = sources(args.from)
    // Names that fall together in those of tools are one name.
    const taken = new Set([...writtenServers(readTexts(paths).config ?? "").keys()].map(slugOf))
    const rows = files.flatMap((file) =>
      serversIn(file, args.from === undefined).map((found) => {
        const problem =
          found.problem ??
          (isSvc(found.server, address)
            ? "it is svc itself"
            : taken.has(slugOf(found.name))
              ? "there is one of this name already"
              : undefined)
        if (problem === undefined) taken.add(slugOf(found.name))
        return { ...found, file, problem }
      }),
    )
    const added = rows.filter(({ problem }) => problem === undefined)
    if (args.json !== true) {
      if (rows.length === 0) {
        say("no servers found")
        return 0
      }
      process.stdout.write(
        `${table(
          ["name", "starts", "from", "note"],
          rows.map((row) => [
            row.name,
            summary(row),
            row.file,
            row.problem === undefined ? row.notes.join("; ") : `left out: ${row.problem}`,
          ]),
        )}\n`,
      )
    }
    const willAdd = added.length > 0 && args["dry-run"] !== true && (args.yes === true || (await confirm(added.length)))
    if (willAdd) {
      await createMissing(paths, systemClock)
      const all: Edit = (text) => added.reduce((changed, { name, server }) => addServer(name, server)(changed), text)
      await editConfig(paths, all, systemClock)
    }
    const names = added.map(({ name }) => name)
    print(
      args.json === true,
      {
        added: willAdd ? names : [],
        found: rows.map(({ name, file, problem, notes }) => ({
          name,
          file,
          added: willAdd && problem === undefined,
          notes,
          ...(problem === undefined ? {} : { problem }),
        })),
      },
      () => (willAdd ? `added ${names.join(", ")} (${paths.file})` : "nothing was added"),
    )
    return 0
  },
}

// ---

function sources(from: unknown): readonly string[] {
  const around = { platform: process.platform, home: homeDirectory(), appData: process.env.APPDATA, cwd: process.cwd() }
  if (typeof from !== "string")
    return APPLICATIONS.flatMap((one) => filesOf(one, around)).filter((file) => existsSync(file))
  const application = APPLICATIONS.find((one): one is Application => one === from)
  const files = application === undefined ? [resolve(from)] : filesOf(application, around)
  const there = files.filter((file) => existsSync(file))
  if (there.length === 0) {
    const names = application === undefined ? `; the applications are ${APPLICATIONS.join(", ")}` : ""
    throw new RequestError("not_found", `There is no ${files.join(" or ")}${names}`)
  }
  return there
}

/** The servers in a file. What cannot be read is said where others are read too; else it throws a ConfigError. */
function serversIn(file: string, oneOfMany: boolean): readonly Found[] {
  try {
    return readForeign(readFileSync(file, "utf8"), file, (text) => Bun.TOML.parse(text), process.cwd())
  } catch (cause) {
    const wrong =
      cause instanceof ConfigError
        ? cause
        : new ConfigError([{ code: "read", severity: "error", file, message: messageOf(cause) }], { cause })
    if (!oneOfMany) throw wrong
    say(`left out: ${wrong.message}`)
    return []
  }
}

function summary({ server }: Found): string {
  const text =
    typeof server.url === "string"
      ? server.url
      : [server.command, ...(Array.isArray(server.args) ? server.args : [])].join(" ")
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

/** Throws a RequestError (usage) where there is nobody to ask. */
function confirm(count: number): Promise<boolean> {
  if (!canAsk()) throw usage("add --yes to import without being asked")
  return agrees(`add ${count === 1 ? "it" : `these ${count}`}?`)
}
