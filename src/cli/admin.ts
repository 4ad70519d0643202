/** `svc admin`: opens the admin page of the running svc in the browser, logged in, or prints a token for programs. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, notRunning, openContext } from "../commands/command-context.ts"
import { openBrowser } from "../commands/open-browser.ts"
import { print, say } from "../lib/output.ts"
import { isObject } from "../wire/message.ts"

export const admin: CommandDef = {
  meta: { name: "admin", description: "Open the admin page of the running svc, logged in, or print a token for REST" },
  args: {
    print: { type: "boolean", description: "Print the link instead of opening it; the link works once, within 60 s" },
    token: { type: "boolean", description: "Print a token for REST, valid for 12 hours or until svc stops" },
    ...CONTEXT_ARGS,
  },
  async run({ args }) {
    const context = openContext(args)
    const answer = await context.ask("admin", { token: args.token === true })
    if (!isObject(answer)) throw notRunning(context.paths)
    const { url, token } = answer
    if (args.json === true || args.print === true || typeof token === "string") {
      print(args.json === true, answer, () => String(token ?? url))
      return 0
    }
    if (await openBrowser(String(url))) say("opened the admin page in the browser, logged in")
    else print(false, answer, () => `open this link in a browser: ${String(url)}`)
    return 0
  },
}
