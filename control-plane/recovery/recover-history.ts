/**
 * Room `control-plane/recovery`: takes back what sidecars know and the database lacks, and begins a new
 * history (contract §17). `sidecar-state.ts` reads what a sidecar hands over, `recovery-store.ts` compares
 * it.
 */

import { ownerName } from '../../shared/crypto/federated-id.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { AccountId, ApiKeyId, GateId, IssuerId, PassportId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { parseFederatedIssuer } from '../../shared/wire/api/federation.ts';
import { updateAccount } from '../accounts/update-account.ts';
import { deleteApiKey } from '../api-keys/delete-api-key.ts';
import { endAllStandingApprovals } from '../approvals/standing-approval-store.ts';
import { skipPlaces } from '../attestations/chain-store.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { appendAuditEntry } from '../audit/append-entry.ts';
import { deleteGate } from '../gates/delete-gate.ts';
import { historyOf } from '../history/history.ts';
import {
  beginGeneration,
  type HandedIn,
  type KnownEnd,
  type LostChain,
  lockGeneration,
  readHandedIn,
  readKnownEnds,
  readKnownHeads,
  readLostChains,
  readMissing,
} from '../history/history-store.ts';
import { type LostTree, readLostTrees } from '../history/lost-trees.ts';
import type { Caller } from '../http/caller.ts';
import { takeBackFederation } from '../issuers/take-back-federation.ts';
import { updateIssuer } from '../issuers/update-issuer.ts';
import { type LogDeps, originOf } from '../log/deps.ts';
import { beginNextLog } from '../log/log-store.ts';
import { revokePassport } from '../passports/revoke-passport.ts';
import { moveOwner } from '../passports/suspend-owner.ts';
import { suspendPassport } from '../passports/suspend-passport.ts';
import { takeBackUnnamed } from '../passports/take-back-unnamed.ts';
import { adoptSeenMeanwhile } from '../passports/unnamed-end-store.ts';
import { changeTransaction } from '../sync/change-transaction.ts';
import { raiseFeeds } from '../sync/feed-store.ts';
import { stillOpen } from './recovery-store.ts';

const generationBytes = 16;
/** Chains that one audit entry names: the states of an entry stay below 8 KiB, as everybody else's. */
const chainsPerEntryMax = 32;
const treesPerEntryMax = 4;

export type RecoveryDeps = AppendingDeps & Pick<LogDeps, 'witnesses'>;

export interface Recovery {
  readonly generation: string;
  readonly state: 'whole' | 'regressed';
  /** Revocations and the like that this call has done once more, or would do. */
  readonly takenBack: readonly KnownEnd[];
  /** What an administrator has to do first; nothing is begun before that. */
  readonly byHand: readonly KnownEnd[];
  readonly lost: readonly LostChain[];
  /** Of the transparency log, as witnesses showed them. */
  readonly trees: readonly LostTree[];
  /** Once history is whole. */
  readonly handedIn: readonly HandedIn[];
  readonly applied: boolean;
}

/**
 * Does once more what was taken away, each in a transaction with its audit entry, and then begins the next
 * generation in one transaction that states what is lost in the audit of each account. Killed anywhere, it
 * goes on when it is called again: what is done is not open any more, and the last transaction is whole or
 * nothing.
 */
export async function recoverHistory(
  deps: RecoveryDeps,
  caller: Caller,
  { isApplied, keepsOlderGates }: { readonly isApplied: boolean; readonly keepsOlderGates: boolean },
): Promise<Recovery> {
  const history = historyOf(deps.sql);
  await history.refresh();
  const { current } = await history.generations();
  const open = await stillOpen(deps.sql, await readKnownEnds(deps.sql));
  const isByHand = ({ kind }: KnownEnd) => kind === 'gate_policy' && !keepsOlderGates;
  const byHand = open.filter(isByHand);
  const takenBack = open.filter((end) => !isByHand(end) && end.kind !== 'gate_policy');
  const lost = await readLostChains(deps.sql);
  const trees = await readLostTrees(deps.sql);
  const found = { takenBack, byHand, lost, trees, handedIn: [] };
  if (!history.isRegressed) {
    const handedIn = await readHandedIn(deps.sql);
    return { ...found, handedIn, generation: current, state: 'whole', applied: false };
  }
  if (!isApplied) return { ...found, generation: current, state: 'regressed', applied: false };
  if (byHand.length > 0) {
    throw new ApiError('precondition_failed', {
      message: `Accept that these gates go on with an earlier policy (keep_older_gates): ${byHand
        .slice(0, 10)
        .map(({ id }) => id)
        .join(', ')}.`,
    });
  }
  for (const end of ownersFirst(takenBack))
    if ((await stillOpen(deps.sql, [end])).length > 0) await takeBack(deps, caller, end);
  await changeTransaction(deps, (tx, change) => adoptSeenMeanwhile(tx, change, deps.clock.now()));
  const generation = await begin(deps, caller, current);
  await history.refresh();
  return { ...found, generation, state: 'whole', applied: true };
}

/** A passport that is suspended with its owner is active with him again, so it is not suspended by itself. */
const ownersFirst = (ends: readonly KnownEnd[]): readonly KnownEnd[] =>
  ends.toSorted((one, other) => Number(other.kind === 'owner') - Number(one.kind === 'owner'));

/** As the account's own administrator would, and on record as done by this caller. */
async function takeBack(deps: RecoveryDeps, caller: Caller, end: KnownEnd): Promise<void> {
  const suspended = { body: { status: 'suspended' } } as const;
  const owner: Caller = {
    ...caller,
    accountId: end.accountId,
    mode: end.mode ?? 'live',
    scopes: ['admin:*'],
  };
  if (end.kind === 'account') await updateAccount(deps, caller, { accountId: end.accountId, ...suspended });
  else if (end.kind === 'owner')
    await moveOwner(deps, owner, { owner: end.id.slice(ownerName(owner, '').length), to: 'suspended' });
  else if (end.kind === 'unnamed' && (end.standing === 'suspended' || end.standing === 'revoked'))
    await takeBackUnnamed(deps, owner, { ...end, digest: end.id as IdDigest, standing: end.standing });
  else if (end.kind === 'federation')
    await takeBackFederation(deps, owner, parseFederatedIssuer(must(end.detail, 'it has a state')));
  else if (end.kind === 'issuer')
    await updateIssuer(deps, owner, { issuerId: end.id as IssuerId, ...suspended });
  else if (end.kind === 'api_key') await deleteApiKey(deps, owner, end.id as ApiKeyId);
  else if (end.kind === 'gate')
    await deleteGate(deps, owner, { gateId: end.id as GateId, ifMatch: () => true });
  else if (end.standing === 'revoked')
    await revokePassport(deps, owner, { passportId: end.id as PassportId, reason: 'recovered' });
  else await suspendPassport(deps, owner, end.id as PassportId);
}

async function begin(deps: RecoveryDeps, caller: Caller, before: string): Promise<string> {
  return deps.sql.begin(async (tx) => {
    const { current } = await lockGeneration(tx);
    // Another call was quicker.
    if (current !== before) return current;
    const missing = await readMissing(tx);
    const lost = await readLostChains(tx);
    // The ledger may have forgotten what they spent. Sidecars learn of it from the snapshot that they load.
    await endAllStandingApprovals(tx, { endedAtMs: deps.clock.now(), endedBy: caller.actor.id });
    await raiseFeeds(tx, await readKnownHeads(tx));
    await skipPlaces(tx, lost);
    const generation = `gen_${Buffer.from(deps.random.bytes(generationBytes)).toString('hex')}`;
    const trees = await readLostTrees(tx);
    await beginGeneration(tx, generation);
    // The tree that a witness holds cannot go on here: it would be contradicted. Without witnesses it is not
    // known what was published, so it is taken for lost.
    if (trees.length > 0 || deps.witnesses === null) await beginNextLog(tx, (log) => originOf(deps, log));
    // In the order in which everybody locks the chains of the audit.
    const owners = [...byOwner(lost, caller)].sort(([one], [other]) => (one < other ? -1 : 1));
    for (const [key, chains] of owners) {
      const [accountId, mode] = key.split(' ') as [AccountId, Mode];
      for (let first = 0; first === 0 || first < chains.length; first += chainsPerEntryMax) {
        const named = chains.slice(first, first + chainsPerEntryMax);
        await appendAuditEntry(
          tx,
          deps,
          { ...caller, accountId, mode },
          {
            operation: 'recoverHistory',
            target: generation,
            before: { generation: before },
            after: {
              generation,
              missing,
              chains: named.map(renderLost),
              trees: trees.slice(0, treesPerEntryMax).map(renderTree),
            },
          },
        );
      }
    }
    return generation;
  });
}

const renderLost = ({ chainId, afterPlace, lastPlace, lastHash, lost }: LostChain) => ({
  chain_id: chainId,
  after_sequence: afterPlace,
  last_sequence: lastPlace,
  last_hash: lastHash,
  records: lost,
});

const renderTree = ({ witness, origin, size, root }: LostTree) => ({ witness, origin, size, root });

/** The operator's audit has an entry in any case, and chains that the database does not know. */
function byOwner(lost: readonly LostChain[], caller: Caller): Map<string, LostChain[]> {
  const owners = new Map<string, LostChain[]>([[`${caller.accountId} live`, []]]);
  for (const chain of lost) {
    const key = `${chain.accountId ?? caller.accountId} ${chain.mode ?? 'live'}`;
    const chains = owners.get(key) ?? [];
    owners.set(key, chains);
    chains.push(chain);
  }
  return owners;
}
