import { expect, test } from "bun:test"
import { canWrite, closedTo, findUser } from "../../../src/features/system/service-user.ts"

const OPS = { name: "ops", uid: 1000, gids: [1000, 50], home: "/home/ops" }
const tree: Readonly<Record<string, { mode: number; uid: number; gid: number }>> = {
  "/": { mode: 0o755, uid: 0, gid: 0 },
  "/home": { mode: 0o755, uid: 0, gid: 0 },
  "/home/me": { mode: 0o700, uid: 1, gid: 1 },
  "/home/me/svc": { mode: 0o755, uid: 1, gid: 1 },
  "/opt": { mode: 0o750, uid: 0, gid: 50 },
  "/opt/svc": { mode: 0o755, uid: 0, gid: 0 },
  "/opt/data": { mode: 0o755, uid: 0, gid: 0 },
  "/srv": { mode: 0o755, uid: 1000, gid: 0 },
}
const facts = (path: string) => tree[path]

test("a user is found with its groups and its home, and an unknown one is not [service:user]", () => {
  const answers: Readonly<Record<string, string>> = {
    "id -u -- ops": "1000\n",
    "id -G -- ops": "1000 50\n",
    "getent passwd ops": "ops:x:1000:1000::/home/ops:/bin/sh\n",
  }
  const ask = (command: readonly string[]) => answers[command.join(" ")]
  expect([findUser("ops", ask), findUser("nobody", ask)]).toEqual([OPS, undefined])
})

test("the first closed folder on the way to a program is named [service:user]", () => {
  expect(closedTo(OPS, "/home/me/svc", facts)).toBe("/home/me")
  expect(closedTo(OPS, "/opt/svc", facts)).toBeUndefined()
  expect(closedTo({ ...OPS, gids: [1000] }, "/opt/svc", facts)).toBe("/opt")
  expect(closedTo({ ...OPS, uid: 0 }, "/home/me/svc", facts)).toBeUndefined()
  expect(closedTo(OPS, "/opt/missing", facts)).toBe("/opt/missing")
})

test("a folder can be written, or created in one that can [service:user]", () => {
  expect(
    ["/srv", "/srv/a/b", "/opt/data", "/opt/new", "/home/me/x"].map((folder) => canWrite(OPS, folder, facts)),
  ).toEqual([true, true, false, false, false])
})
