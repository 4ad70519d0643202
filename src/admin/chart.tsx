/** Draws a bar chart over time, as a small SVG with the colors of the page. */
type Part = {
  /** The name in the legend. */
  readonly name: string
  /** Its height in the stack. */
  readonly value: number
  /** The value in the tooltip, if it differs from the height. */
  readonly total?: number
  readonly tone: "plain" | "bad" | "faint"
}

type Bar = {
  /** The start of the minute, milliseconds since the epoch. */
  readonly at: number
  /** From the bottom up. */
  readonly parts: readonly Part[]
}

type BarChartProps = {
  readonly title: string
  /** Describes the chart in words, also for screen readers. */
  readonly summary: string
  readonly bars: readonly Bar[]
  format(value: number): string
}

/** Draws stacked bars with a scale. The tooltip of a bar shows its values. */
export function BarChart({ title, summary, bars, format }: BarChartProps) {
  const top = niceTop(Math.max(0, ...bars.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0))))
  const width = WIDTH / Math.max(1, bars.length)
  const names = bars[0]?.parts ?? []
  return (
    <figure class="panel chart">
      <figcaption class="head">
        <strong>{title}</strong>
        <span class="soft">{summary}</span>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${title}: ${summary}`} preserveAspectRatio="none">
        {[0, 0.5, 1].map((share) => (
          <line key={share} class="grid" x1={0} x2={WIDTH} y1={HEIGHT * share} y2={HEIGHT * share} />
        ))}
        {bars.map(({ at, parts }, index) => {
          let below = 0
          return (
            <g key={at}>
              {parts.map(({ name, value, tone }) => {
                const height = top === 0 ? 0 : (value / top) * HEIGHT
                below += height
                return (
                  <rect
                    key={name}
                    class={tone}
                    x={index * width + width * 0.1}
                    y={HEIGHT - below}
                    width={width * 0.8}
                    height={height}
                  />
                )
              })}
              <rect class="hit" x={index * width} y={0} width={width} height={HEIGHT}>
                <title>
                  {`${clock(at)}: ${parts.map(({ name, value, total = value }) => `${name} ${format(total)}`).join(", ")}`}
                </title>
              </rect>
            </g>
          )
        })}
      </svg>
      <div class="head soft scale">
        <span>{bars[0] !== undefined && clock(bars[0].at)}</span>
        <span class="row">
          {names.map(({ name, tone }) => (
            <span key={name} class={`key ${tone}`}>
              {name}
            </span>
          ))}
          {top > 0 && <span>scale to {format(top)}</span>}
        </span>
        <span>now</span>
      </div>
    </figure>
  )
}

// ---

const WIDTH = 600
const HEIGHT = 120

const clock = (at: number): string => new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })

/** Returns the smallest of 1, 2, 5, 10, 20 … that is at least a value. */
function niceTop(value: number): number {
  if (value <= 0) return 0
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power
}
