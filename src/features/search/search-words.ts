/** Splits names, prose and queries into words, and words into stems. */
import { stemmer } from "stemmer"

/**
 * Returns the words of a text in lower case. `createIssue`, `create_issue` and `create-issue` are two words each;
 * `GitHub` is `github`, `git` and `hub`, because people write it as one word and as two.
 */
export function wordsOf(text: string): string[] {
  const words: string[] = []
  // Most texts are ASCII, and matching Unicode properties takes three times as long.
  const runs = PLAIN.test(text) ? text.match(PLAIN_RUN) : text.replaceAll("’", "'").match(RUN)
  for (const found of runs ?? []) {
    if (LOWER_CASE.test(found)) {
      words.push(found)
      continue
    }
    const run = found.endsWith("'s") && !STOP_WORDS.has(found.toLowerCase()) ? found.slice(0, -2) : found
    if (!MIXED.test(run) || PLURAL_ACRONYM.test(run)) {
      words.push(run.toLowerCase())
      continue
    }
    const parts = run.split(BOUNDARY).map((part) => part.toLowerCase())
    if (parts.length > 1 && parts.length <= 3) words.push(run.toLowerCase())
    words.push(...parts)
  }
  return words
}

/** A word of a text; `kept` is what the owner of the reader keeps with it. */
export type ReadWord<T> = { readonly word: string; readonly isStop: boolean; kept: T | undefined }

/**
 * Returns a function that adds the words of a text to a list, the same as `wordsOf`. The texts of tools repeat their words, so it
 * remembers how the latest were read; of two words in one place it remembers the later, so no text makes it slow or large.
 */
export function createWordReader<T>(): (text: string, words: ReadWord<T>[]) => void {
  const latest = new Array<{ readonly run: string; readonly words: readonly ReadWord<T>[] } | undefined>(PLACES)
  const wordsIn = (text: string): readonly ReadWord<T>[] =>
    wordsOf(text).map((word) => ({ word, isStop: isStopWord(word), kept: undefined }))
  return (text, words) => {
    const before = words.length
    for (let at = 0; at < text.length; at++) {
      const start = at
      let hash = 0
      let code = text.charCodeAt(at)
      for (; IN_WORD[code] === 1; code = text.charCodeAt(++at)) hash = (Math.imul(hash, 31) + code) | 0
      if (code > 127) {
        words.splice(before, words.length, ...wordsIn(text))
        return
      }
      if (at === start) continue
      const place = (hash ^ (hash >>> 14)) & (PLACES - 1)
      let known = latest[place]
      if (known === undefined || known.run.length !== at - start || !text.startsWith(known.run, start)) {
        const run = text.slice(start, at)
        known = { run, words: wordsIn(run) }
        latest[place] = known
      }
      for (let one = 0; one < known.words.length; one++) words.push(known.words[one] as ReadWord<T>)
    }
  }
}

/** Returns the stem that a word shares with its inflections: `issues`, `issued` and `issue` have the same stem. */
export function stemOf(word: string): string {
  const kept = KEPT.get(word)
  if (kept !== undefined) return kept
  const known = IRREGULAR.get(word)
  if (known !== undefined) return stemmer(known)
  return word.length < 3 || NOT_LATIN.test(word) ? word : stemmer(word)
}

/** Whether a word says nothing about the tool: articles, pronouns, and the wrapping of a request ("could you please"). */
export const isStopWord = (word: string): boolean => STOP_WORDS.has(word)

/** Returns the stop words, for the correction of misspelt words. */
export const stopWords = (): Iterable<string> => STOP_WORDS

/** Whether a word fits anything, and so says little about the tool: "make", "first", "week". */
export const isLightWord = (word: string): boolean => LIGHT_WORDS.has(word)

// ---

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII
const PLAIN = /^[\u0000-\u007f]*$/
const PLAIN_RUN = /[A-Za-z0-9]+(?:'[A-Za-z]+)?/g
const LOWER_CASE = /^[a-z0-9]+$/
/** Has a 1 for each code of ASCII that may be in a word. */
const IN_WORD = Uint8Array.from({ length: 128 }, (_, code) => (/[A-Za-z0-9']/.test(String.fromCharCode(code)) ? 1 : 0))
const PLACES = 16_384
const RUN = /[\p{L}\p{N}]+(?:'\p{L}+)?/gu
const MIXED = /\p{Ll}\p{Lu}|\p{Lu}{2}\p{Ll}/u
const BOUNDARY = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/u
const PLURAL_ACRONYM = /^\p{Lu}+s$/u
const NOT_LATIN = /[^a-z]/

/** Inflections that the stemmer does not know, and words that it must not cut. */
const IRREGULAR: ReadonlyMap<string, string> = new Map(
  `sent send|bought buy|built build|wrote write|written write|ran run|got get|gotten get|gave give|given give|took take
  taken take|made make|kept keep|left leave|lost lose|paid pay|sold sell|told tell|found find|held hold|brought bring
  thought think|caught catch|chose choose|chosen choose|drew draw|drawn draw|drove drive|flew fly|forgot forget
  forgotten forget|froze freeze|hidden hide|knew know|known know|met meet|spent spend|spoke speak|spoken speak|spun spin
  stuck stick|threw throw|thrown throw|woke wake|won win|broke break|broken break|began begin|begun begin|saw see|seen see
  shown show|went go|gone go|done do|did do|said say|heard hear|felt feel|slept sleep|stole steal|taught teach|wore wear
  indices index|indexes index|matrices matrix|vertices vertex|people person|children child|men man|women woman|feet foot
  mice mouse|data data|media media|analyses analysis|analyse analyze|queries query|branches branch|statuses status
  status status|news news|canvas canvas|canvases canvas|alias alias|aliases alias|bus bus|process process|access access
  address address|database database|databases database|organisation organization|organisations organization
  summarise summarize|colour color|colours color|favourite favorite|favourites favorite|centre center|catalogue catalog
  cancelled cancel|cancelling cancel|labelled label|labelling label|behaviour behavior|licence license|recognise recognize
  organise organize|optimise optimize|visualise visualize|initialise initialize|customise customize|translate translate`
    .split(/[|\n]/)
    .map((pair) => pair.trim().split(" ") as [string, string]),
)

/** Words that the stemmer would cut to the stem of another word, in groups: the first of each is the stem of all. */
const KEPT: ReadonlyMap<string, string> = new Map(
  `incoming|lately|important importance importantly|organ organs|paste pastes pasted pasting|past|general generally|generic|
  university universities|universal|universe|international|internal internally|severe severity severities|several|
  animal animals|policy policies|department departments|apartment apartments|authority authorities|community communities|
  communicate communication communications|relative relatives|secretary|executive executives|positive|station stations|
  nation national nations|evening evenings|morning mornings|wedding weddings|meaning meanings`
    .split("|")
    .flatMap((group) => {
      const words = group.trim().split(" ")
      return words.map((word) => [word, words[0] as string] as const)
    }),
)

const STOP_WORDS: ReadonlySet<string> = new Set(
  `a an the this that these those who's where's how's that's he's she's and or but nor so if then than as at by for from in into of on onto to with within
  about over under upon via per up out off it its it's i i'm i've i'd i'll me my mine myself we we'd us our ours you your yours
  he him his she her hers they them their theirs who whom whose which what what's where when why how there there's here
  is am are was were be been being do does did doing done have has had having can could can't couldn't will would won't
  wouldn't shall should may might must ought need needs needed want wants wanted wanna like liked please kindly pls plz
  thanks thank hey hi hello ok okay just only also too very really quite actually basically maybe perhaps
  let let's lets gonna got get's help helps able way ways thing things something anything everything some any each every
  all both either neither no not don't doesn't didn't isn't aren't wasn't one ones ever even still already yet again
  now me mine im ive id ill dont tool tools use used using user users given etc eg ie such other another same
  able possible make sure much many more most lot lots bit hand able exactly currently right sort kind whether`
    .split(/\s+/)
    .filter(Boolean),
)

const LIGHT_WORDS: ReadonlySet<string> = new Set(
  `make makes making made put puts give gives giving gave take takes taking took let leave leaves left go goes going went
  come came tell tells told say says said keep keeps kept bring brings brought happen happens happened know knows known
  look looks looking see sees seen try tries tried first last next previous new old good better best bad big small little
  few several whole full main own different current today tomorrow yesterday tonight week month year day days hour minute
  time times later soon ago since until while during before after between around across against without else instead
  though however because really back away down everyone someone anyone nobody everybody everything person guy name number
  part place side case work works working call called show find help set start end`
    .split(/\s+/)
    .filter(Boolean),
)
