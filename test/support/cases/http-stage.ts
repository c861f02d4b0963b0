import { expect } from 'vitest';
import { expireApprovals } from '../../../control-plane/approvals/expire-approvals.ts';
import { must } from '../../../shared/errors/assert.ts';
import { until, untilAnswer } from '../base/until.ts';
import type { Api, Reply } from '../service/api.ts';
import type { Place, Presenter } from './decision-case.ts';
import type { Stage } from './play-case.ts';

/** What was made for a case by the public API. */
export interface Props {
  readonly tokens: Readonly<Record<Presenter, string>>;
  readonly gateIds: Readonly<Record<Place, string | null>>;
  /** Admin key of the account of the gates, in the mode of the case. */
  readonly key: string;
}

/**
 * On a busy machine the time of a request may be over, and it is asked again. What a PERMIT had taken that
 * came too late, its approval too, is free again when its void has arrived.
 */
export async function untilDecided(ask: () => Promise<Reply>): Promise<Reply> {
  const isLate = ({ body }: Reply) => body.error?.code === 'overloaded';
  const reply = await ask();
  if (!isLate(reply)) return reply;
  const isDecided = (again: Reply) => !isLate(again) && again.body.reason !== 'approval_used';
  return untilAnswer(ask, isDecided, { what: 'a decision' });
}

/** A program that decides, and the control plane by which everything else is done. */
export const httpStage = (
  api: Api,
  props: Props,
  program: {
    check(gateId: string | null, token: string, request: Readonly<Record<string, unknown>>): Promise<Reply>;
    /** Resolves when what the control plane has committed is in force there. */
    caughtUp(): Promise<void>;
  },
): Stage => {
  const { key } = props;
  const changeGate = async (body: object) => {
    const gateId = must(props.gateIds['the gate'], 'there is a gate');
    const reply = await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, key, body });
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    await program.caughtUp();
  };
  return {
    ask: async ({ by, at, request }) => {
      const reply = await untilDecided(() => program.check(props.gateIds[at], props.tokens[by], request));
      expect(reply.status, JSON.stringify(reply.body)).toBe(200);
      return reply.body;
    },
    resolve: async (approvalId, word) => {
      const reply = await api.call({ url: `/v1/approvals/${approvalId}/${word}`, key, body: {} });
      expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    },
    waitForExpiry: async (approvalId) => {
      const statusOf = async () => (await api.call({ url: `/v1/approvals/${approvalId}`, key })).body.status;
      await until(async () => (await statusOf()) === 'expired', { what: 'an approval that expires' });
      // The control plane of a test sweeps nothing by itself.
      await expireApprovals(api.deps);
    },
    changePolicy: () => changeGate({ constraints: { approvals: { expires_in_s: 299 } } }),
    renameGate: () => changeGate({ name: 'renamed in between', description: 'described anew' }),
  };
};
