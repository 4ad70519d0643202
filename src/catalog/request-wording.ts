/**
 * Finds the request within its wording: "Hi! My boss asked me for this. Could you please list my issues? Thanks" asks to list
 * issues. Drops polite wrapping, and gives the words around the request less weight.
 */

/** A part of a request, and the weight of its words. */
export type Wording = { readonly text: string; readonly weight: number }

/** Returns the parts of a request in their order. A request without any wrapping is one part. */
export function wordingOf(request: string): readonly Wording[] {
  const parts = request
    .replaceAll("’", "'")
    .replace(WRAPPING, " ")
    .split(CLAUSE_ENDS)
    .flatMap(partsOf)
    .filter(({ text }) => /[\p{L}\p{N}]/u.test(text))
  if (parts.length === 0) return [{ text: request, weight: 1 }]
  const most = Math.max(...parts.map(({ weight }) => weight))
  return parts.map(({ text, weight }) => ({ text, weight: weight / most }))
}

// ---

/** The weights of the parts of a request: after words that ask, possibly the request, and around the request. */
const ASKED = 1
const MAY_ASK = 0.55
const AROUND = 0.15

/** Splits a clause at its last words that ask. The request follows these words, or precedes them at the end of the clause. */
function partsOf(clause: string): readonly Wording[] {
  const last = [...clause.matchAll(ASKING)].at(-1)
  if (last === undefined) return [{ text: clause, weight: STATEMENT.test(clause) ? AROUND : MAY_ASK }]
  const around = clause.slice(0, last.index)
  const asked = clause.slice(last.index + last[0].length)
  return /[\p{L}\p{N}]{2}/u.test(asked)
    ? [
        { text: around, weight: AROUND },
        { text: asked, weight: ASKED },
      ]
    : [{ text: around, weight: ASKED }]
}

const CLAUSE_ENDS = /(?<=[.!?;:])\s+|\n+|\s[-–—]+\s|—|,\s*(?=(?:but|so|because|since|as|and then)\b)|\s(?=because\b)/i

/** Matches a clause that states something, or that tells what follows the request. */
const STATEMENT = new RegExp(
  `^[\\W]*(?:(?:so|and|but|also|well|okay|ok|yeah|oh|then|because|since|as|although)\\b[\\s,]*)*(?:${[
    "(?:i|we|they|he|she|you)(?:'\\w+)?\\s+\\w",
    "(?:it|this|that|there|which|everything|everybody|everyone|somebody|someone|nobody|nothing)(?:'(?:s|ll|d|ve|re)|\\s+(?:is|was|has|had|will|would|should|must|can|could|may|might|needs|seems|looks|makes|takes|helps|gets|does))\\b",
    "let (?:me|us) know|tell me (?:when|if|once|the result|what happened|how it went)|make sure|be (?:careful|sure)|(?:don't|do not|never) \\w+|not sure|no idea|next (?:step|task|one)",
    "(?:because|since|although|though|whereas)\\b",
    "the user (?:says|said|asks|asked|wants|wrote)",
  ].join("|")})`,
  "i",
)

const WHO =
  "(?:boss|manager|colleague|coworker|teammate|friend|wife|husband|partner|client|customer|team|mom|mum|dad|sister|brother|professor|teacher)"

const ASKING = new RegExp(
  `\\b(?:${[
    "please|pls|plz|kindly",
    "(?:can|could|would|will) (?:you|u|we|i|someone|anybody|anyone)(?: (?:please|maybe|possibly|perhaps|kindly|just|quickly|also))*(?: help me(?: out)?(?: with| to)?)?(?: something)?",
    "i(?: am|'m| was|'ve been| have been)? (?:just |really |also )*(?:need|needed|want|wanted|wish|hope|hoping|trying|looking|wondering|would like|would love|have)(?: you| for you)?(?: (?:to|for|if|whether|how)(?: (?:i|we|you|there)(?: (?:can|could|might|is))?)?)",
    "i(?:'d| would) (?:really )?(?:like|love|want|need|appreciate)(?: it)?(?: you)?(?: to| if)?(?: you)?(?: (?:can|could|would))?",
    "(?:is|would|might) (?:there|it|this)(?: be)? (?:any |a |some )?(?:way|chance|possible|possibility|option)(?: (?:that|to|for|of|if))?(?: (?:you|me|us|i|we))?(?: (?:can|could|to))?",
    "(?:do|does) (?:you|anyone|anybody|someone)(?: happen to)? know(?: (?:how|if|whether))?(?: (?:to|i|we|you))?(?: can)?",
    "(?:would|do) you mind",
    "help me(?: out)?(?: (?:with|to))?(?: something)?",
    "(?:let's|let us|go ahead and|i should|we should|we need to|you need to|your task is to|the task is to)",
  ].join("|")})\\b:?`,
  "gi",
)

const WRAPPING = new RegExp(
  `\\b(?:${[
    "(?:hi|hello|hey|howdy|greetings|good (?:morning|afternoon|evening|day))(?: (?:there|all|everyone|everybody|guys|team|folks|assistant|claude))?(?=[\\s,!.:]|$)",
    "thanks?(?: you)?(?: (?:so|very) much| a (?:lot|bunch|million|ton))?(?: (?:in advance|for (?:your|the|any) help))?",
    "much appreciated|cheers|sorry to (?:bother|trouble) you|sorry for (?:the|another|asking)[\\w ]{0,20}|hope (?:you|this|that)[\\w' ]{0,30}(?=[,.!]|$)",
    "if (?:that|this|it)(?:'s| is| isn't| would be)?(?: not)?(?: at all| too much)? ?(?:possible|okay|ok|alright|fine|trouble|a problem)",
    "if (?:at all )?possible|if you (?:can|could|would|don't mind|wouldn't mind|have (?:the |a )?(?:time|moment|minute|chance))|whenever you (?:can|have time)|when you (?:have|get) (?:the |a )?(?:time|moment|minute|chance|sec|second)",
    "as soon as possible|asap|right (?:now|away)|real quick|really quick(?:ly)?|by any chance|no rush|for me|on my behalf",
    `(?:my|our|the) ${WHO} (?:has |have |had |just |is |keeps )*(?:asked|asking|told|telling|wants|wanted|needs|needed|said|says)(?: (?:me|us))?(?: (?:this morning|yesterday|today|earlier|again))?(?: (?:to|that|for|if))?`,
    "i (?:really |just |still |honestly )*(?:don't|do not|dont|can't|cannot|cant|couldn't)(?: (?:really|quite|seem to))? (?:know|remember|recall|understand|figure out|get)(?: (?:how|what|where|why|which))?(?: (?:to|i|it|this|that))*(?: do(?: (?:it|this|that))?)?(?: (?:by )?myself)?",
    "i have no (?:idea|clue)(?: (?:how|what|where))?(?: to)?(?: do (?:it|this|that))?",
    "i(?:'m| am) (?:running out of time|in a (?:hurry|rush)|not sure (?:how|what|where|if)(?: to)?|new (?:to|at) this|stuck)",
    "(?:find|pick|choose|select|use|which) (?:the |a )?(?:right|best|appropriate|suitable|correct|proper|matching) tools?(?: (?:for|to) (?:this|that|the|it)(?: (?:task|job|request))?)?(?: and (?:use|run|call) it)?",
    "i was (?:just )?(?:thinking|wondering)(?: (?:about|that))?|just (?:checking|curious|wondering)|quick question|long story short|basically|actually|honestly|obviously|you know",
  ].join("|")})\\b`,
  "gi",
)
