import { minuteMs } from '../../../shared/model/time.ts';
import { untilAnswer } from '../base/until.ts';
import type { Api, Reply } from './api.ts';
import { startTestSidecar } from './sidecar.ts';
import { isPassing } from './sidecar-pair.ts';
import { makeWallet, moveToWallet, setFrozen } from './wallets.ts';

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

/** Records of a sidecar that knew a passport in another wallet than the control plane. */
export interface UnheardMoves {
  /** Had left the wallet that its token names, as the sidecar knew. */
  readonly left: Reply['body'];
  /** Had come into a wallet that limits money. */
  readonly cameUnpriced: Reply['body'];
  readonly cameToApproval: Reply['body'];
  /** Had left one. */
  readonly wentUnpriced: Reply['body'];
  /** Had come into a frozen one, as the settlement of a PERMIT, and of a SUSPEND, was told. */
  readonly frozenAtPermit: Reply['body'];
  readonly frozenAtSuspend: Reply['body'];
}

/** Passports are moved between wallets, and a sidecar decides before it hears of it. */
export async function recordUnheardMoves(api: Api): Promise<UnheardMoves> {
  const walletOf = async () => (await makeWallet(api, { limits: { daily_usd: 1_000 } })).wallet_id;
  const [wallet, frozen] = [await walletOf(), await walletOf()];
  await setFrozen(api, frozen, 'freeze');
  const plain = (await api.createGate()).gate_id;
  const unpriced = { spend_limits: { per_transaction_usd: 9, unpriced: 'permit' } };
  const limited = (await api.createGate({ constraints: unpriced })).gate_id;
  const approvals = { above_usd: 5, expires_in_s: 600 };
  const asking = (await api.createGate({ constraints: { approvals } })).gate_id;
  const left = await api.issuePassport({ wallet_id: wallet });
  await moveToWallet(api, left.passport_id, null);
  const goes = await api.issuePassport({ wallet_id: wallet });
  const comes = await api.issuePassport();
  const freezes = await api.issuePassport();
  // Far away, so that it decides before it is told.
  const sidecar = await startTestSidecar({ api, bus: null, eachWayMs: 100 });
  try {
    await sidecar.caughtUp();
    const once = (gateId: string, { jwt }: Reply['body'], request: object) =>
      sidecar.check(gateId, jwt, { permission_key: 'orders:create', ...request });
    /** It has asked for what it needs. */
    const settled = async (...asked: Parameters<typeof once>): Promise<string> => {
      const decided = await untilAnswer(
        () => once(...asked),
        (reply) => !isPassing(reply),
        { what: 'a decision' },
      );
      return decided.body.attestation_id;
    };
    const known = await settled(plain, left, { amount: 1 });
    for (const passport of [goes, comes, freezes]) await settled(plain, passport, { amount: 1 });
    await moveToWallet(api, freezes.passport_id, frozen);
    const atPermit = await settled(asking, freezes, { amount: 1, idempotency_key: 'once' });
    // By now it may know, and blocks after the same checks.
    const atSuspend = await settled(asking, freezes, { amount: 6 });
    sidecar.link.cut();
    await moveToWallet(api, comes.passport_id, wallet);
    await moveToWallet(api, goes.passport_id, null);
    const cut = async (...asked: Parameters<typeof once>) => (await once(...asked)).body.attestation_id;
    const cameUnpriced = await cut(plain, comes, {});
    const cameToApproval = await cut(asking, comes, {});
    const wentUnpriced = await cut(limited, goes, {});
    sidecar.resume();
    return {
      left: await stored(api, known),
      cameUnpriced: await stored(api, cameUnpriced),
      cameToApproval: await stored(api, cameToApproval),
      wentUnpriced: await stored(api, wentUnpriced),
      frozenAtPermit: await stored(api, atPermit),
      frozenAtSuspend: await stored(api, atSuspend),
    };
  } finally {
    sidecar.resume();
    await sidecar.close();
    sidecar.removeFolder();
  }
}

async function stored(api: Api, id: string): Promise<Reply['body']> {
  const read = () => api.call({ method: 'GET', url: `/v1/attestations/${id}` });
  return (await untilAnswer(read, ({ status }) => status === 200, { what: 'the record' })).body;
}
