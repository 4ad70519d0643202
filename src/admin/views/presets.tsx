/** Presets: named selections of servers by tags, with the servers that each selects now. */
import { Fragment } from "preact"
import { useState } from "preact/hooks"
import { useApp, useStateOf } from "../context.ts"
import { useAction, useLoaded, useSettled } from "../hooks.ts"
import { Button, Choice, countText, Dialog, Empty, Field, Head, Table, WhenLoaded } from "../parts.tsx"
import { linkTo } from "../router.ts"
import type { Preset } from "../types.ts"

/** The list of presets. */
export function PresetsView() {
  const { api, ui } = useApp()
  const configuration = useStateOf((state) => state.configuration)
  const servers = useStateOf((state) => state.servers)
  const status = useStateOf((state) => state.status)
  const [edited, setEdited] = useState<Preset | "new">()
  const [, run] = useAction()
  const loaded = useLoaded(() => api.all<Preset>("/presets"), [configuration, servers])
  const remove = async (name: string) => {
    const isAgreed = await ui.ask({
      title: `Delete the preset ${name}?`,
      text: "svc will refuse clients that connect with this preset.",
      action: "Delete",
      isDangerous: true,
    })
    if (!isAgreed) return
    await run("delete", async () => {
      await api.send("DELETE", `/presets/${encodeURIComponent(name)}`)
      loaded.reload()
      return `${name} was deleted`
    })
  }
  return (
    <>
      <Head title="Presets">
        <Button kind="primary" onClick={() => setEdited("new")}>
          Create a preset
        </Button>
      </Head>
      <WhenLoaded loaded={loaded}>
        {(presets) =>
          presets.length === 0 ? (
            <Empty>No presets yet. A preset limits a client to the servers with certain tags.</Empty>
          ) : (
            <Table
              caption="Presets"
              items={presets}
              keyOf={({ name }) => name}
              columns={[
                {
                  title: "Preset",
                  kind: "name",
                  draw: ({ name, description }) => (
                    <>
                      {name}
                      <span class="sub">{description}</span>
                      <code class="sub">
                        {status?.endpoint ?? "/mcp"}?preset={encodeURIComponent(name)}
                      </code>
                    </>
                  ),
                },
                { title: "Filter", kind: "wide", draw: ({ filter }) => <code>{filter}</code> },
                { title: "Servers", draw: ({ servers: selected }) => <Selected names={selected} /> },
                {
                  title: "Controls",
                  draw: (preset) => (
                    <div class="row">
                      <Button label={`Edit ${preset.name}`} onClick={() => setEdited(preset)}>
                        Edit
                      </Button>
                      <Button label={`Delete ${preset.name}`} onClick={() => void remove(preset.name)}>
                        Delete
                      </Button>
                    </div>
                  ),
                },
              ]}
            />
          )
        }
      </WhenLoaded>
      {edited !== undefined && (
        <PresetDialog
          preset={edited === "new" ? undefined : edited}
          onClose={() => {
            setEdited(undefined)
            loaded.reload()
          }}
        />
      )}
    </>
  )
}

// ---

/** Creates or changes a preset. It shows the selected servers while the person types. */
function PresetDialog({ preset, onClose }: { preset: Preset | undefined; onClose(): void }) {
  const { api } = useApp()
  const servers = useStateOf((state) => state.servers)
  const [name, setName] = useState(preset?.name ?? "")
  const [filter, setFilter] = useState(preset?.filter ?? "")
  const [description, setDescription] = useState(preset?.description ?? "")
  const [tools, setTools] = useState("")
  const [busy, run] = useAction()
  const asked = useSettled(filter.trim(), 200)
  const preview = useLoaded<Preview | undefined>(
    async () => (asked === "" ? undefined : api.get<Preview>("/presets/preview", { filter: asked })),
    [asked, servers],
  )
  const tags = [...new Set(servers.flatMap((server) => server.tags))].sort()
  const save = async () => {
    const isSaved = await run("save", async () => {
      await api.send("PUT", `/presets/${encodeURIComponent(name)}`, {
        filter,
        ...(description === (preset?.description ?? "") ? {} : { description }),
        ...(tools === "" ? {} : { tools }),
      })
      return `${name} was saved`
    })
    if (isSaved) onClose()
  }
  return (
    <Dialog title={preset === undefined ? "Create a preset" : `Edit ${preset.name}`} onClose={onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault()
          void save()
        }}
      >
        {preset === undefined && (
          <Field label="Name">
            {(id) => (
              <input id={id} required value={name} onInput={({ currentTarget }) => setName(currentTarget.value)} />
            )}
          </Field>
        )}
        <Field label="Filter" hint="Tags combined with and, or, not and parentheses. For example: web and not slow">
          {(id, describedBy) => (
            <input
              id={id}
              required
              spellcheck={false}
              autocomplete="off"
              aria-describedby={describedBy}
              value={filter}
              onInput={({ currentTarget }) => setFilter(currentTarget.value)}
            />
          )}
        </Field>
        <div class="row">
          {tags.map((tag) => (
            <Button
              key={tag}
              label={`Add the tag ${tag}`}
              onClick={() => setFilter(filter.trim() === "" ? tag : `${filter} or ${tag}`)}
            >
              {tag}
            </Button>
          ))}
        </div>
        <section class="note" aria-live="polite" aria-label="Preview">
          <div>
            {preview.error !== undefined ? (
              <p class="error-text">{preview.error}</p>
            ) : (
              <>
                <p>
                  {preview.data === undefined
                    ? "Type a filter to see what it selects."
                    : `Selects ${countText(preview.data.servers.length, "server")}:`}{" "}
                  {preview.data !== undefined && <Selected names={preview.data.servers} />}
                </p>
                {preview.data !== undefined && preview.data.unknownTags.length > 0 && (
                  <p class="error-text">No server has the tag {preview.data.unknownTags.join(", ")}.</p>
                )}
              </>
            )}
          </div>
        </section>
        <Field label="Description">
          {(id) => (
            <input id={id} value={description} onInput={({ currentTarget }) => setDescription(currentTarget.value)} />
          )}
        </Field>
        <Choice
          label="What clients see in the list of tools"
          isBare={false}
          value={tools}
          options={[
            ["", preset === undefined ? "As set for svc serve" : "Unchanged"],
            ["all", "All tools"],
            ["search", "A search tool, in place of the list"],
          ]}
          onChange={setTools}
        />
        <div class="actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            type="submit"
            isBusy={busy !== undefined}
            disabled={name === "" || filter.trim() === ""}
          >
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

type Preview = { readonly servers: readonly string[]; readonly unknownTags: readonly string[] }

const Selected = ({ names }: { names: readonly string[] }) =>
  names.length === 0 ? (
    <span class="soft">none</span>
  ) : (
    names.map((name, at) => (
      <Fragment key={name}>
        {at > 0 && ", "}
        <a href={linkTo(["servers", name])}>{name}</a>
      </Fragment>
    ))
  )
