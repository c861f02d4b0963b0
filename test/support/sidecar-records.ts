import { minuteMs } from '../../shared/model/time.ts';
import type { Api, Reply } from './api.ts';
import { startTestSidecar } from './sidecar.ts';
import { untilAnswer } from './until.ts';
import { makeWallet, setFrozen } from './wallets.ts';

/** Records of a sidecar that was not connected since its start. */
export interface CutOffRecords {
  /** At a gate that decides on a state of any age. */
  readonly permit: Reply['body'];
  readonly stale: Reply['body'];
  /** Of a passport that was revoked minutes before, which nothing on its disk says. */
  readonly permitOfRevoked: Reply['body'];
}

/**
 * A sidecar starts from its disk while the control plane is away, decides, and ships what it has recorded
 * when the control plane is back.
 */
export async function recordWhileCutOff(api: Api): Promise<CutOffRecords> {
  const lenient = (await api.createGate({ trust_level: 'L1' })).gate_id;
  const strict = (await api.createGate({ trust_level: 'L2' })).gate_id;
  const agent = await api.issuePassport({ trust_tier: 'L3' });
  const revoked = await api.issuePassport({ trust_tier: 'L3' });
  const before = await startTestSidecar({ api });
  await before.caughtUp();
  await before.close();
  await api.call({ url: `/v1/passports/${revoked.passport_id}/revoke`, body: {} });
  api.advance(5 * minuteMs);
  const after = await startTestSidecar({ api, folder: before.folder, isCutOff: true });
  try {
    const decide = async (gateId: string, jwt: string): Promise<string> => {
      const decided = () => after.check(gateId, jwt, { permission_key: 'orders:create' });
      const { body } = await untilAnswer(decided, ({ status }) => status === 200, { what: 'a decision' });
      return body.attestation_id;
    };
    const permit = await decide(lenient, agent.jwt);
    const stale = await decide(strict, agent.jwt);
    const permitOfRevoked = await decide(lenient, revoked.jwt);
    after.resume();
    return {
      permit: await stored(api, permit),
      stale: await stored(api, stale),
      permitOfRevoked: await stored(api, permitOfRevoked),
    };
  } finally {
    await after.close();
    before.removeFolder();
  }
}

/** A request presents an approval to a sidecar, while the wallet of its passport is frozen. */
export async function recordFrozenWithApproval(api: Api): Promise<Reply['body']> {
  const { wallet_id: walletId } = await makeWallet(api, { limits: { daily_usd: 50 } });
  const { jwt } = await api.issuePassport({ wallet_id: walletId });
  const constraints = { approvals: { above_usd: 3, expires_in_s: 3_600 } };
  const { gate_id: gateId } = await api.createGate({ constraints });
  const sidecar = await startTestSidecar({ api });
  try {
    await sidecar.caughtUp();
    const order = { permission_key: 'orders:create', amount: 5 };
    const ask = (request: object, answer: string) =>
      untilAnswer(
        () => sidecar.check(gateId, jwt, request),
        ({ body }) => (body.reason ?? body.decision) === answer,
        { what: answer },
      );
    const { approval_id: id } = (await ask(order, 'approval_required')).body;
    await api.call({ url: `/v1/approvals/${id}/approve`, body: {} });
    await setFrozen(api, walletId, 'freeze');
    const blocked = await ask({ ...order, approval_id: id }, 'wallet_frozen');
    return await stored(api, blocked.body.attestation_id);
  } finally {
    await sidecar.close();
    sidecar.removeFolder();
  }
}

async function stored(api: Api, id: string): Promise<Reply['body']> {
  const read = () => api.call({ method: 'GET', url: `/v1/attestations/${id}` });
  return (await untilAnswer(read, ({ status }) => status === 200, { what: 'the record' })).body;
}
