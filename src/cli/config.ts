/** `svc config`: inspects, checks, imports and restores the configuration. */
import { readFileSync, statSync } from "node:fs"
import { basename, relative } from "node:path"
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { FOLLOW_ARGS, finishChange } from "../commands/follow.ts"
import { ALLOW_COMMANDS, withReferences } from "../commands/resolved-context.ts"
import { parseDocument } from "../config/document.ts"
import { documentChanges } from "../config/document-changes.ts"
import { formatChange } from "../config/document-diff.ts"
import { keyHolders } from "../config/edit.ts"
import { keysOf } from "../config/externalize-secrets.ts"
import { jsonSchema } from "../config/schema.ts"
import { secretsOf } from "../config/written-values.ts"
import { systemClock } from "../lib/clock.ts"
import type { CommandGroup } from "../lib/command-line.ts"
import { ConfigError, formatIssue, type Issue, RequestError } from "../lib/errors.ts"
import { visible } from "../lib/log.ts"
import { ago, print, say, table } from "../lib/output.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { findLimitIssues } from "../serve/limit-issues.ts"
import { configuredSecrets, findIssues } from "../serve/local-configuration.ts"
import { readTokens, refusedTokens } from "../store/client-tokens.ts"
import { listBackups, readTexts } from "../store/documents.ts"
import { type Paths, tokensFile } from "../store/paths.ts"
import { editConfig } from "../store/transaction.ts"
import { importServers } from "./config-import.ts"

export const config: CommandGroup = {
  meta: { name: "config", description: "Inspect, check, import and restore the configuration" },
  subCommands: {
    path: {
      meta: { name: "path", description: "Print the path of the configuration file" },
      args: CONTEXT_ARGS,
      run({ args }) {
        const { paths } = openContext(args, "allowed")
        print(args.json === true, paths, () => paths.file)
        return 0
      },
    },
    check: {
      meta: { name: "check", description: "Check the configuration; exit with 78 if it has errors" },
      args: {
        ...CONTEXT_ARGS,
        strict: { type: "boolean", description: "Exit with 78 for warnings too, such as an unknown key" },
        ...ALLOW_COMMANDS,
      },
      async run({ args }) {
        const context = openContext(args)
        const inFiles = await withReferences(context, args["allow-commands"] === true, async (resolved) =>
          findIssues(resolved, () => readTexts(resolved.paths)),
        )
        const found = [...inFiles, ...tokenIssues(context.paths)]
        const issues = [...found, ...(await findLimitIssues(context))]
        // The limits of clients are no faults of the configuration.
        const wrong = found.some(({ severity }) => severity === "error" || args.strict === true)
        const { GITHUB_ACTIONS, GITHUB_WORKSPACE = process.cwd() } = process.env
        const lineOf = (issue: Issue) =>
          GITHUB_ACTIONS === "true"
            ? annotationOf(issue, GITHUB_WORKSPACE)
            : `${formatIssue(issue)} (${issue.severity})`
        print(args.json === true, issues, () => (issues.length === 0 ? "no issues" : issues.map(lineOf).join("\n")))
        return wrong ? 78 : 0
      },
    },
    import: importServers,
    schema: {
      meta: { name: "schema", description: "Print the JSON Schema of mcp.json" },
      args: { json: { type: "boolean", description: "No effect: the output is always JSON" } },
      run() {
        print(true, jsonSchema(), () => "")
        return 0
      },
    },
    backups: {
      meta: { name: "backups", description: "List the backups, newest first" },
      args: {
        ...CONTEXT_ARGS,
        verbose: { type: "boolean", description: "With --json, also print the change that followed each backup" },
      },
      run({ args }) {
        const { paths } = openContext(args, "allowed")
        const all = describeBackups(paths)
        print(args.json === true, args.verbose === true ? all : all.map(({ backup }) => backup), () =>
          all.length === 0
            ? "no backups yet; svc writes one before each change of mcp.json"
            : table(
                [{ title: "backup", fit: "whole" }, "written", "next change"],
                all.map(({ backup, written, change }) => [
                  backup,
                  `${ago(systemClock.now() - Date.parse(written))} ago`,
                  change,
                ]),
              ),
        )
        return 0
      },
    },
    restore: {
      meta: { name: "restore", description: "Restore a backup; svc backs up the current file first" },
      args: {
        backup: {
          type: "positional",
          required: false,
          description: "Name from `svc config backups` (default: the newest)",
          valueHint: "backup",
        },
        ...CONTEXT_ARGS,
        yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation at a terminal" },
        "dry-run": { type: "boolean", description: "Only show what would change" },
        ...FOLLOW_ARGS,
      },
      async run({ args }) {
        // The configuration file may be missing: it is what the command restores.
        const context = openContext(args, "allowed")
        const { paths } = context
        const all = listBackups(paths)
        const found = typeof args.backup === "string" ? all.find((path) => basename(path) === args.backup) : all[0]
        if (found === undefined)
          throw new RequestError(
            "not_found",
            typeof args.backup === "string"
              ? `no backup is named ${args.backup}; see \`svc config backups\``
              : "there are no backups",
          )
        const text = readFileSync(found, "utf8")
        const restored = basename(found)
        const current = readTexts(paths).config() ?? ""
        const isDry = args["dry-run"] === true
        if (isDry || (args.yes !== true && isInteractive() && text !== current)) {
          const secrets = [...configuredSecrets(context), ...[current, text].flatMap(secretsIn)]
          const diff = formatChange(current, text, secrets)
          const shown = [visible(paths.file), ...diff.split("\n").map(visible)].join("\n")
          if (isDry) {
            print(args.json === true, { changed: false, restored, file: paths.file, diff }, () => shown)
            return 0
          }
          say(shown)
          if (!(await promptYesNo(`restore ${restored}?`))) return 0
        }
        const changed = await editConfig(paths, () => text, systemClock)
        const changes = documentChanges(current, text)
        const undo = changed ? "; `svc config restore` undoes this" : "; the file already had this content"
        return finishChange(context, args, {
          result: { changed, restored },
          done: `restored ${restored}${changes === "" ? "" : `: ${changes}`}${undo}`,
        })
      },
    },
  } as Record<string, CommandDef>,
  aliases: {
    validate: ["check"],
    edit: "`svc mcp edit NAME` changes a server, and `svc config path` names the file; a running svc applies what you save",
    show: "`svc mcp list` lists the servers, `svc mcp status NAME --verbose` shows the settings of one, and `svc config path` names the file",
  },
}

// ---

/** Returns an issue as a workflow command of GitHub Actions, which shows it at its line. `root`: the folder of the repository. */
function annotationOf({ severity, message, file, line, column }: Issue, root: string): string {
  const escaped = (text: string) => text.replace(/[%\r\n]/g, (char) => encodeURIComponent(char))
  const value = (text: string) => escaped(text).replace(/[:,]/g, (char) => encodeURIComponent(char))
  const place = file === undefined ? undefined : relative(root, file)
  const properties = Object.entries({ file: place, line, col: column }).flatMap(([name, part]) =>
    part === undefined ? [] : [`${name}=${value(String(part))}`],
  )
  return `::${severity}${properties.length > 0 ? ` ${properties.join()}` : ""}::${escaped(message)}`
}

/** Returns a warning if svc would refuse all tokens of clients; only a warning, because svc reads them only with `--auth`. */
function tokenIssues(paths: Paths): readonly Issue[] {
  try {
    readTokens(tokensFile(paths), process.platform)
    return []
  } catch (error) {
    return [{ code: "tokens", severity: "warning", message: refusedTokens(error) }]
  }
}

type ListedBackup = { readonly backup: string; readonly written: string; readonly change: string }

/** Returns the backups, newest first: when svc wrote each, and what has changed between it and the next one or the current file. */
function describeBackups(paths: Paths): readonly ListedBackup[] {
  let next = readTexts(paths).config() ?? ""
  return listBackups(paths).map((path) => {
    const text = readFileSync(path, "utf8")
    const change = documentChanges(text, next)
    next = text
    return { backup: basename(path), written: statSync(path).mtime.toISOString(), change }
  })
}

/** Returns the secrets in a text of mcp.json; none if it is malformed: then secrets are recognized only by patterns. */
function secretsIn(text: string): readonly string[] {
  try {
    const document = parseDocument(text, "mcp.json")
    const parts = keyHolders(document).map(({ settings }) => ({ server: settings }))
    return [...secretsOf(parts), ...keysOf(document)]
  } catch (error) {
    if (error instanceof ConfigError) return []
    throw error
  }
}
