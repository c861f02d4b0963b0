import { responseOf } from '../../clients/node/src/agent-trust.ts';
import { AgentTrustError } from '../../clients/node/src/errors.ts';
import type { Approval } from '../../clients/node/src/generated/api.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Work } from '../base/host.ts';
import { isPassing, pollUntil } from '../base/poll.ts';
import { ask } from '../base/prompt.ts';
import { approvalColumns } from './approval-columns.ts';

/** Of one poll: 2,000 approvals. Those after them show when some of these are done. */
const pagesPerPollMax = 10;

/**
 * `agent-trust approvals watch`: pending approvals, each once, the oldest first. On a terminal each is asked
 * about; elsewhere they are only printed. A service that is away is asked again.
 */
export async function watchApprovals(work: Work, signal: AbortSignal): Promise<undefined> {
  const { print, dialogue } = work;
  const isAsking = dialogue.stdin.isTTY === true && !print.isJson;
  /** Those of the last poll: what is no longer pending does not come back. */
  let shown: ReadonlySet<string> = new Set();
  let isFirst = true;
  return pollUntil(signal, print, async (heard) => {
    const { pending, isLimited } = await readPending(work, signal);
    heard();
    const fresh = pending.filter(({ approval_id }) => !shown.has(approval_id));
    shown = new Set(pending.map(({ approval_id }) => approval_id));
    for (const approval of fresh) {
      print.rows(approvalColumns, [approval], isAsking || isFirst);
      isFirst = false;
      if (!isAsking) continue;
      await sayWhatIsAsked(work, approval);
      if (!(await resolve(work, approval, signal))) return 'done';
    }
    return { isLimited };
  });
}

async function readPending(
  { client }: Work,
  signal: AbortSignal,
): Promise<{ readonly pending: readonly Approval[]; readonly isLimited: boolean }> {
  const pending: Approval[] = [];
  let isLimited = false;
  let pages = 0;
  const list = client.approvals.list({ status: 'pending', limit: limits.pageItemsMax }, { signal });
  for await (const page of list.pages()) {
    isLimited = responseOf(page).headers['x-ratelimit-limit'] !== undefined;
    pending.push(...page.items);
    if (++pages === pagesPerPollMax) break;
  }
  return { pending: pending.toReversed(), isLimited };
}

/** Behind a bar: the words of the requester, which must not look like ours. */
async function sayWhatIsAsked({ client, print }: Work, { gate_id, display }: Approval): Promise<void> {
  const gate = await client.gates.get(gate_id).catch(() => null);
  const { title = null, lines = [], url = null } = display ?? {};
  const said = [title, ...lines.map(({ label, value }) => `${label}: ${value}`), url].filter(isText);
  print.say(gate === null ? `Gate: ${gate_id}` : `Gate: ${gate.name} (${gate_id})`);
  print.say(said.length === 0 ? 'The service says nothing more of what is asked.' : 'What is asked:');
  for (const text of said) print.say(`  | ${text.replaceAll('\n', ' ')}`);
}

const isText = (text: string | null): text is string => text !== null;

/** Asks, and does what is said. False: to end. */
async function resolve(
  { client, print, dialogue }: Work,
  { approval_id }: Approval,
  signal: AbortSignal,
): Promise<boolean> {
  for (;;) {
    const answer = await ask(dialogue, '[a]pprove, [d]eny, [s]kip or [q]uit, and a note after it? ', signal);
    if (answer === null) return false;
    const [, word = '', note = ''] = /^\s*(\S*)\s*(.*?)\s*$/.exec(answer) ?? [];
    const body = note === '' ? {} : { note };
    try {
      if (/^a(?:pprove)?$/i.test(word)) await client.approvals.approve(approval_id, body);
      else if (/^d(?:eny)?$/i.test(word)) await client.approvals.deny(approval_id, body);
      else if (/^q(?:uit)?$/i.test(word)) return false;
      else if (/^s(?:kip)?$/i.test(word)) return true;
      else continue;
      print.say(`${approval_id}: ${/^a/i.test(word) ? 'approved' : 'denied'}`);
      return true;
    } catch (error) {
      if (!(error instanceof AgentTrustError)) throw error;
      // Somebody was quicker, or it has expired: the next one is asked about.
      print.say(`${approval_id}: ${error.message}`);
      if (!isPassing(error)) return true;
    }
  }
}
