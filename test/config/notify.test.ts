import { expect, test } from "bun:test"
import { parseDocument } from "../../src/config/document.ts"
import { notifySecrets, readNotifyTargets } from "../../src/config/notify.ts"

test("the values of references of a target must not be shown, nor keys in the words of a command [secrets:hidden]", () => {
  const notify = [
    { command: "tell", args: ["${keychain:CHAT}", "--token=canary-in-one", "$DAY", "plain-word"] },
    { url: "https://hooks.example.com/${HOOK}", secret: "canary-that-signs" },
  ]
  const { targets, issues } = readNotifyTargets(parseDocument(JSON.stringify({ notify }), "mcp.json"), {
    platform: "linux",
    parent: { DAY: "saturday" },
    dotenv: { HOOK: "canary-path" },
    references: () => ({ value: "canary-of-chat" }),
  })
  expect(issues).toEqual([])
  expect(notifySecrets(targets).toSorted()).toEqual([
    "canary-in-one",
    "canary-of-chat",
    "canary-path",
    "canary-that-signs",
  ])
})
