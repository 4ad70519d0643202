/** `svc config`: the configuration itself. */
import { readFileSync } from "node:fs"
import { basename } from "node:path"
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, findIssues, openContext } from "../app/command-context.ts"
import { print } from "../app/output.ts"
import { jsonSchema } from "../config/schema.ts"
import { systemClock } from "../lib/clock.ts"
import { formatIssue, RequestError } from "../lib/errors.ts"
import { editConfig, listBackups, readTexts } from "../store/documents.ts"
import { importServers } from "./config-import.ts"

export const config: CommandDef = {
  meta: { name: "config", description: "The configuration: path, check, import, schema, backups, restore" },
  subCommands: {
    path: {
      meta: { name: "path", description: "Print where the configuration is" },
      args: CONTEXT_ARGS,
      run({ args }) {
        const { paths } = openContext(args)
        print(args.json === true, paths, () => paths.file)
        return 0
      },
    },
    check: {
      meta: { name: "check", description: "Check the configuration; exit code 78 where something is wrong" },
      args: CONTEXT_ARGS,
      run({ args }) {
        const context = openContext(args)
        const issues = findIssues(context, () => readTexts(context.paths))
        const wrong = issues.some(({ severity }) => severity === "error")
        print(args.json === true, issues, () =>
          issues.length === 0
            ? "no issues"
            : issues.map((issue) => `${formatIssue(issue)} (${issue.severity})`).join("\n"),
        )
        return wrong ? 78 : 0
      },
    },
    import: importServers,
    schema: {
      meta: { name: "schema", description: "Print the JSON Schema of mcp.json" },
      run() {
        print(true, jsonSchema(), () => "")
        return 0
      },
    },
    backups: {
      meta: { name: "backups", description: "List the backups, newest first" },
      args: CONTEXT_ARGS,
      run({ args }) {
        const names = listBackups(openContext(args).paths).map((path) => basename(path))
        print(args.json === true, names, () => names.join("\n"))
        return 0
      },
    },
    restore: {
      meta: { name: "restore", description: "Put a backup back; what is there now becomes a backup" },
      args: {
        backup: {
          type: "positional",
          required: false,
          description: "A name from `svc config backups` (default the newest)",
        },
        ...CONTEXT_ARGS,
      },
      async run({ args }) {
        const { paths } = openContext(args)
        const all = listBackups(paths)
        const found = typeof args.backup === "string" ? all.find((path) => basename(path) === args.backup) : all[0]
        if (found === undefined)
          throw new RequestError(
            "not_found",
            typeof args.backup === "string" ? `There is no backup ${args.backup}` : "There are no backups",
          )
        const text = readFileSync(found, "utf8")
        const changed = await editConfig(paths, () => text, systemClock)
        print(args.json === true, { changed, restored: basename(found) }, () => `restored ${basename(found)}`)
        return 0
      },
    },
  } as Record<string, CommandDef>,
}
