import type { ServerResponse } from 'node:http';
import type { OutcomeReport } from './generated/api.ts';
import type { OnReportError, Settlement } from './settlement.ts';
import type { Decision, Sidecar } from './sidecar.ts';

/** Of a GuardSetup. */
interface Reporting {
  readonly sidecar: Partial<Pick<Sidecar, 'reportOutcome'>>;
  readonly onReportError?: OnReportError;
}

/** Of GuardOptions. */
interface Settling<Request, Answer> {
  readonly settle?: true | Settlement<Request, Answer>;
}

/** What a guard reports. */
type Ended = OutcomeReport['outcome'] | 'left';

/**
 * Reports the outcome of a held PERMIT. Never rejects, and nobody waits for it: what does not arrive is
 * settled or released at the end of the hold, as the gate says.
 */
export async function reportEnd<Request, Answer>(
  setup: Reporting,
  { settle }: Settling<Request, Answer>,
  decision: Pick<Decision, 'decision' | 'attestation_id'>,
  { request, answer, ended }: { readonly request: Request; readonly answer: Answer; readonly ended: Ended },
): Promise<void> {
  if (settle === undefined || decision.decision !== 'PERMIT' || decision.attestation_id === null) return;
  const { onReportError = console.error } = setup;
  try {
    const { amount, clientLeft = 'served' } = settle === true ? {} : settle;
    const outcome = ended === 'left' ? clientLeft : ended;
    const spent = outcome === 'served' && ended === 'served' ? await amount?.(request, answer) : undefined;
    // As JSON it would be null, which is all that is held.
    if (spent !== undefined && !(spent >= 0 && spent < Number.POSITIVE_INFINITY))
      throw new TypeError(`settle.amount answered ${spent}, which is no amount`);
    const report = { outcome, ...(spent !== undefined && { amount: spent }) };
    await setup.sidecar.reportOutcome?.(decision.attestation_id, report);
  } catch (error) {
    onReportError(error);
  }
}

/** The same once a response of node:http has ended: `failed` for a 5xx. */
export function reportWhenEnded<Request, Answer>(
  setup: Reporting,
  options: Settling<Request, Answer>,
  decision: Pick<Decision, 'decision' | 'attestation_id'>,
  {
    request,
    answer,
    response,
  }: { readonly request: Request; readonly answer: Answer; readonly response: ServerResponse },
): void {
  if (options.settle === undefined) return;
  response.once('close', () => {
    const ended = !response.writableFinished ? 'left' : response.statusCode >= 500 ? 'failed' : 'served';
    void reportEnd(setup, options, decision, { request, answer, ended });
  });
}

/** The member of the request. */
export const holdOf = ({ settle }: Settling<never, never>): object =>
  settle === undefined
    ? {}
    : {
        hold: settle === true || settle.expiresInS === undefined ? true : { expires_in_s: settle.expiresInS },
      };
