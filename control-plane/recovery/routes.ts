import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { keyset } from '../../shared/crypto/keyset.ts';
import { KnownStateReport, RecoveryAnswer, RecoveryRequest } from '../../shared/wire/sync/recovery.ts';
import { historyOf } from '../history/history.ts';
import { lockGeneration, noteKnownEnds } from '../history/history-store.ts';
import { callerOf } from '../http/caller.ts';
import { type RecoveryDeps, recoverHistory } from './recover-history.ts';
import { findKnownEnds } from './recovery-store.ts';
import { readSidecarState } from './sidecar-state.ts';

/** A million revoked passports are 21 MB of a state; the rest is for gates. */
const stateBytesMax = 64 * 1024 * 1024;

export function recoveryRoutes(deps: RecoveryDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    // Of sidecars: a state that was in force there. Verified here, and looked at only while something is
    // missing.
    app.post(
      '/sync/history/state',
      { config: { scope: 'sidecars:connect' }, schema: { body: KnownStateReport }, bodyLimit: stateBytesMax },
      async (request) => {
        const { accountId } = callerOf(request);
        if (!historyOf(deps.sql).isRegressed) return { ends: 0 };
        const keys = keyset(
          deps.ed25519,
          deps.signingKeys.all().filter(({ purpose, compromised }) => purpose === 'sync' && !compromised),
        );
        const state = readSidecarState(keys, accountId, request.body);
        if (state === null) return { ends: 0 };
        const ends = await deps.sql.begin(async (tx) => {
          const { number, earlier } = await lockGeneration(tx);
          // What an earlier generation knew was settled by the recovery that ended it.
          if (state.generation !== null && earlier.includes(state.generation)) return [];
          const found = await findKnownEnds(tx, accountId, state);
          await noteKnownEnds(tx, number, found);
          return found;
        });
        return { ends: ends.length };
      },
    );

    app.post(
      '/sync/history/recover',
      {
        config: { scope: 'admin:*', operatorOnly: true },
        schema: { body: RecoveryRequest, response: { 200: RecoveryAnswer } },
      },
      async (request) => {
        const { apply, keep_older_gates: keepsOlderGates = false } = request.body;
        const done = await recoverHistory(deps, callerOf(request), { isApplied: apply, keepsOlderGates });
        const ends = (each: typeof done.byHand) =>
          each.map(({ kind, id, accountId, standing }) => ({ kind, id, account_id: accountId, standing }));
        return {
          generation: done.generation,
          state: done.state,
          applied: done.applied,
          taken_back: ends(done.takenBack),
          by_hand: ends(done.byHand),
          lost: done.lost.map((chain) => ({
            chain_id: chain.chainId,
            after_sequence: chain.afterPlace,
            last_sequence: chain.lastPlace,
            records: chain.lost,
          })),
          lost_trees: done.trees.map(({ witness, origin, size, root, lost }) => ({
            ...{ witness, origin, size, root, entries: lost },
          })),
          handed_in: done.handedIn.map(({ chainId, lost, handedIn }) => ({
            chain_id: chainId,
            lost,
            handed_in: handedIn,
          })),
        };
      },
    );
  };
}
