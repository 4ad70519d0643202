import { expect, test } from "bun:test"
import { numberedPath, resultFiles, resultText } from "../../src/commands/tool-result.ts"

const text = (value: string) => ({ type: "text", text: value })
const image = { type: "image", mimeType: "image/png", data: Buffer.from("png").toString("base64") }

test("texts of a result are unchanged in a file, and escaped on a terminal", () => {
  const result = { content: [text("a\u001b[31m\n"), text("b")] }
  expect(resultText(result, false)).toBe("a\u001b[31m\n\nb\n")
  expect(resultText(result, true)).not.toContain("\u001b")
  expect(resultText({ content: [text("ends\n")] }, false)).toBe("ends\n")
  expect(resultText({ content: [] }, false)).toBe("")
})

test("other content is described, and its data can be saved", () => {
  const blob = { type: "resource", resource: { uri: "x://y", mimeType: "application/zip", blob: "AAAA" } }
  const link = { type: "resource_link", uri: "svc://files/x", name: "x" }
  const result = { content: [image, blob, { type: "resource", resource: { uri: "x://z", text: "inside" } }, link] }
  expect(resultText(result, false)).toBe(
    "[image/png, 3 bytes; --output FILE saves it]\n[application/zip, 3 bytes; --output FILE saves it]\ninside\nsvc://files/x  x\n",
  )
  expect(resultFiles(result).map(({ type, bytes }) => [type, bytes.length])).toEqual([
    ["image/png", 3],
    ["application/zip", 3],
  ])
  expect([0, 1, 2].map((at) => numberedPath("/tmp/a.b/shot.png", at))).toEqual([
    "/tmp/a.b/shot.png",
    "/tmp/a.b/shot-2.png",
    "/tmp/a.b/shot-3.png",
  ])
})

test("structured content is shown if there is no other content", () => {
  expect(resultText({ content: [], structuredContent: { sum: 3 } }, false)).toBe('{\n  "sum": 3\n}\n')
  expect(resultText({ content: [text("3")], structuredContent: { sum: 3 } }, false)).toBe("3\n")
})
