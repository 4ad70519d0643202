import { expect, test } from "bun:test"
import { changelogOf } from "../../scripts/release/changelog.ts"

test("changes are sorted by folder, and those that no user sees are left out", () => {
  const subjects = [
    "serve: refuse http on the https port",
    "test: keep screens as golden files",
    "cli, app: return when svc has applied the change",
    "test, docs: cover more",
    "serve: name the address",
    "merge of something",
  ]
  expect(changelogOf("1.2.3", new Date("2026-03-04T05:06:07Z"), subjects)).toBe(`## 1.2.3 (2026-03-04)

### cli

- return when svc has applied the change

### other

- merge of something

### serve

- refuse http on the https port
- name the address
`)
})
