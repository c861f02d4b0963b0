import type { Logger } from '../../../shared/runtime/logger.ts';
import { until, untilAnswer } from '../base/until.ts';
import { type Api, type Reply, startOwnApi } from './api.ts';
import { goToNoon } from './approvals.ts';
import { startTestSidecar, type TestSidecar } from './sidecar.ts';

/** The tests of these sidecars say what is answered, not how soon. */
const quotaWaitMs = 1_000;

/**
 * A control plane with two sidecars that know nothing of each other, and wait longer than usual for what they
 * need. It is noon.
 */
export interface SidecarPair {
  readonly api: Api;
  readonly sidecars: readonly [TestSidecar, TestSidecar];
  /** A gate with these constraints and a passport, known to both sidecars. */
  setUp(body: {
    readonly gate: Readonly<Record<string, unknown>>;
    readonly passport?: Readonly<Record<string, unknown>>;
  }): Promise<{ readonly gateId: string; readonly passport: Reply['body']; readonly token: string }>;
  /**
   * The first sidecar (`i` is even) or the second is asked, and as any client does asks again while it is
   * told `quota_unavailable` or `overloaded`: a busy machine is no reason for another answer. Throws where it
   * is told nothing else for as long as `until` waits. Where that is the answer to expect, ask the sidecar
   * itself.
   */
  check(i: number, gateId: string | null, token: string, request: object): Promise<Reply>;
  /** Both have applied everything that was committed. */
  caughtUp(): Promise<void>;
  /** Revokes, and resolves when both know. */
  revoke(passportId: string): Promise<void>;
  /** The record, as soon as it is in its chain. */
  attestation(id: string): Promise<Reply['body']>;
  /**
   * Runs `during` while a transaction of somebody else holds these tables, so that whoever wants to change
   * them waits.
   */
  whileLocked<T>(
    tables: 'quota_windows' | 'settlements' | 'approvals' | 'sidecar_epochs',
    during: () => Promise<T>,
  ): Promise<T>;
  close(): Promise<void>;
}

export async function startSidecarPair(options: { readonly logger?: Logger } = {}): Promise<SidecarPair> {
  const api = await startOwnApi(options);
  goToNoon(api);
  const sidecars = [
    await startTestSidecar({ api, quotaWaitMs, ...options }),
    await startTestSidecar({ api, quotaWaitMs, ...options }),
  ] as const;
  const caughtUp = async () => {
    for (const sidecar of sidecars) await sidecar.caughtUp();
  };
  return {
    api,
    sidecars,
    caughtUp,
    check: (i, gateId, token, request) => {
      const ask = () => sidecars[i % 2 === 0 ? 0 : 1].check(gateId, token, request);
      return untilAnswer(ask, (reply) => !isPassing(reply), { what: 'an answer that stays' });
    },
    setUp: async ({ gate, passport: passportBody = {} }) => {
      const { gate_id: gateId } = await api.createGate({ constraints: gate });
      const passport = await api.issuePassport(passportBody);
      await caughtUp();
      return { gateId, passport, token: passport.jwt };
    },
    revoke: async (passportId) => {
      await api.call({ url: `/v1/passports/${passportId}/revoke`, body: {} });
      await caughtUp();
    },
    attestation: async (id) => {
      let found: Reply | null = null;
      await until(
        async () => {
          found = await api.call({ url: `/v1/attestations/${id}` });
          return found.status === 200;
        },
        { what: `attestation ${id}` },
      );
      return (found as Reply | null)?.body;
    },
    whileLocked: async (table, during) => {
      const holder = await api.deps.sql.reserve();
      try {
        await holder.unsafe(`BEGIN; LOCK TABLE ${table} IN EXCLUSIVE MODE`);
        return await during();
      } finally {
        await holder.unsafe('ROLLBACK');
        holder.release();
      }
    },
    close: async () => {
      for (const sidecar of sidecars) {
        await sidecar.close();
        sidecar.removeFolder();
      }
      await api.close();
    },
  };
}

/** The same request may be answered otherwise in a moment. */
export const isPassing = ({ status, body }: Pick<Reply, 'status' | 'body'>): boolean =>
  status === 200 ? body.reason === 'quota_unavailable' : body.error?.code === 'overloaded';

/** How many replies said what, by decision or reason. */
export function tally(replies: readonly Reply[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { status, body } of replies) {
    const said = status === 200 ? (body.reason ?? body.decision) : body.error.code;
    counts[said] = (counts[said] ?? 0) + 1;
  }
  return counts;
}
