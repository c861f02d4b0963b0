import type { Replacement } from './build-simulation.ts';

/** A fault that was planted, for the simulation to find. */
export interface Mutant {
  readonly name: string;
  readonly changes: readonly Replacement[];
}

const planted = (name: string, file: string, from: string, to: string): Mutant => ({
  name,
  changes: [{ file, from, to }],
});

/** One of them, by its name. */
export function mutantOf(name: string): Mutant {
  const mutant = mutants.find((each) => each.name === name);
  if (mutant === undefined) throw new Error(`there is no mutant ${name} any more: choose another one`);
  return mutant;
}

/**
 * One for each promise of the oracle, and for faults of the sidecar that the changelog lists as repaired. A
 * change of the code that one of them names has to change it here.
 */
export const mutants: readonly Mutant[] = [
  planted(
    'charges nothing',
    'sidecar/decide/section.ts',
    'if (decision.charge !== null && view !== null) leases.take(view, decision.charge);',
    '',
  ),
  planted(
    'uses units past the end of their window',
    'shared/quota/lease.ts',
    'const overAtMs = grant.sentAtMs + grant.leftMs;',
    'const overAtMs = grant.sentAtMs + grant.leftMs + 20_000;',
  ),
  planted(
    'gives units of an ended window back',
    'shared/quota/lease.ts',
    `  giveBack(units: number, holding: number, nowMs: number): void {
    if (!this.#isIn(holding, nowMs)) return;`,
    '  giveBack(units: number, holding: number, nowMs: number): void {',
  ),
  planted(
    'returns no idle units',
    'shared/quota/lease.ts',
    'if (nowMs - this.#markedAtMs < idleMs) return 0;',
    'return 0;',
  ),
  planted(
    'repeats a lease call under a new number',
    'sidecar/quota/lease-caller.ts',
    'const outcome = await this.#attempt(body);',
    'const outcome = await this.#attempt({ ...body, seq: this.#lastSeq++ });',
  ),
  planted(
    'keeps the units that an approval holds',
    'sidecar/quota/reservation.ts',
    'window.lease.passOn(units, holding, nowMs)',
    'window.lease.giveBack(units, holding, nowMs)',
  ),
  planted(
    'gives units back whose settlement may be committed',
    'sidecar/settle/settlement-outcome.ts',
    "      return 'undo';\n    case 'committed':",
    "      return 'give_back';\n    case 'committed':",
  ),
  planted(
    'believes that a refused settlement is not delivered again',
    'sidecar/settle/settlement-outcome.ts',
    "    default:\n      return 'void';",
    "    default:\n      return 'give_back';",
  ),
  planted(
    'voids nothing where its client has gone',
    'sidecar/settle/settlement-outcome.ts',
    "return isWanted ? 'keep' : 'undo';",
    "return 'keep';",
  ),
  planted(
    'keeps readings with which nobody was answered',
    'sidecar/settle/settlement-outcome.ts',
    "return isCertain && outcome.kind !== 'unknown' && outcome.kind !== 'late' ? 'none' : 'void';",
    "return 'none';",
  ),
  planted(
    'voids the reading that it answered with',
    'sidecar/settle/asking.ts',
    'this.#readings.splice(0, this.#readings.length - (isReadTold ? 1 : 0))',
    'this.#readings.splice(0)',
  ),
  planted(
    'forgets a void that the spool refused',
    'sidecar/settle/settlement-voids.ts',
    'this.#write(entry, () => undefined);',
    '',
  ),
  planted(
    'answers 503 and voids nothing',
    'sidecar/settle/asking.ts',
    "this.#deps.voids.void(reading === 'void' ? { ...voids, reader_id: readerId } : voids, onWritten);",
    'onWritten();',
  ),
  planted(
    'settles without the key',
    'sidecar/settle/settlement-of.ts',
    'idempotency_key: request.idempotencyKey,',
    'idempotency_key: request.approvalId === null ? request.idempotencyKey : null,',
  ),
  planted(
    'answers what was not written',
    'sidecar/attest/spool.ts',
    "this.#notify(owners, 'onFailed');\n      return;",
    "this.#notify(owners, 'onWritten');\n      return;",
  ),
  planted(
    'answers before the disk has the record',
    'sidecar/attest/spool.ts',
    'if (this.#syncFirst) {',
    'if (this.#syncFirst && this.lastSeq < 0) {',
  ),
  planted(
    'uses the numbers of a failed write up',
    'sidecar/attest/spool.ts',
    'this.lastSeq = Math.max(0, this.lastSeq - owners.length);',
    '',
  ),
  planted(
    'leaves a failed write in its segment',
    'sidecar/attest/epoch-writer.ts',
    '    this.#files.truncate(this.#file, segment.bytes);\n    segment.isEnded = true;',
    '    segment.isEnded = true;',
  ),
  planted(
    'forgets to sync where it has cut off a failed write',
    'sidecar/attest/epoch-writer.ts',
    'else this.#commit.wrote(this.#file, null);',
    '',
  ),
  planted(
    'does not look whether its folder is there',
    'sidecar/attest/epoch-writer.ts',
    'if (segment === null) return isSameFile',
    'if (segment !== null) return true;\n    return isSameFile',
  ),
  planted(
    'takes an epoch of an earlier boot for whole',
    'sidecar/attest/epoch-origin.ts',
    'const isSameBoot = origin.boot_id !== null && origin.boot_id === here.boot_id;',
    'const isSameBoot = true;',
  ),
  planted(
    'never tells that an epoch has ended',
    'sidecar/attest/shipper.ts',
    'await spool.dropEpoch(reader.epoch);',
    '',
  ),
  planted(
    'drops what was shipped before it is taken',
    'sidecar/attest/shipper.ts',
    'reader.position = this.#isInStep ? end : reader.positionOf(nextSeq);',
    'reader.position = (await this.#fill(batch, reader, end)) ?? end;',
  ),
  planted(
    'acknowledges a change before it is on disk',
    'sidecar/replica/snapshot-keeper.ts',
    'if (waiting === null) return;',
    'if (waiting !== undefined) return;',
  ),
  {
    name: 'passes over a hole in the feed',
    changes: [
      {
        file: 'sidecar/replica/replica.ts',
        from: "if (entry.revision > revision + 1) return 'gap';",
        to: '',
      },
      { file: 'sidecar/replica/replica.ts', from: "if (entry.previous !== mark) return 'gap';", to: '' },
    ],
  },
  planted(
    'decides after a stop before it has caught up',
    'sidecar/replica/limits.ts',
    'loopStopMsMax: secondMs',
    'loopStopMsMax: 60_000',
  ),
  planted(
    'decides on a state of any age',
    'shared/decision/check-freshness.ts',
    'standing.stateAgeMs > ageMsMax',
    'standing.stateAgeMs > Number.MAX_VALUE',
  ),
  planted(
    'never learns that the control plane is back',
    'sidecar/replica/reach.ts',
    '    this.#failures = 0;\n    this.#answeredAtMs',
    '    this.#answeredAtMs',
  ),
  planted(
    'answers nobody at the deadline',
    'sidecar/decide/open-checks.ts',
    'if (open.place === -1 || open.openedAtMs > oldestMs) continue;',
    'if (open.openedAtMs !== oldestMs) continue;',
  ),
  planted(
    'takes its own clock for that of the control plane',
    'shared/runtime/carried-clock.ts',
    'if (!this.isKnown) return this.#own.now();\n    return',
    'if (momentMs > 0) return this.#own.now();\n    return',
  ),
  planted(
    'takes an outcome that was not written',
    'sidecar/intake/outcomes.ts',
    "onFailed: () => responder.reply(answers.failure(new ApiError('overloaded'), by.requestId)),",
    "onFailed: () => responder.reply(jsonReply(202, '{}', by.requestId)),",
  ),
  planted(
    'forgets what an outcome came to',
    'sidecar/intake/outcomes.ts',
    'amount_micro_usd: amountMicroUsd,',
    'amount_micro_usd: null,',
  ),
  planted(
    'charges a PERMIT to the lowest wallet alone',
    'sidecar/quota/held-view.ts',
    'for (const { leaseId } of spendWindows) {',
    `const lowest = spendWindows.find(({ name }) => name.wallet !== undefined);
    for (const { leaseId, name } of spendWindows) {
      if (name.wallet !== undefined && name !== lowest?.name) continue;`,
  ),
  planted(
    'charges the root of wallets twice',
    'sidecar/quota/lease-holder.ts',
    'if (moneyMicroUsd > 0) for (const window of view.spendWindows) this.#takeFrom(window, moneyMicroUsd);',
    `const root = view.spendWindows.at(-1);
    if (moneyMicroUsd > 0) for (const window of view.spendWindows) this.#takeFrom(window, moneyMicroUsd);
    if (root?.name.wallet !== undefined && moneyMicroUsd <= root.lease.available) root.lease.take(moneyMicroUsd);`,
  ),
  planted(
    'ignores that a wallet above is frozen',
    'sidecar/quota/wallet-paths.ts',
    'this.#isFrozen = levels.some(',
    'this.#isFrozen = levels.slice(0, 1).some(',
  ),
  planted(
    'lends the other wallets what one has set aside',
    'shared/model/wallet.ts',
    'Math.max(0, (limits[name] ?? 0) - (setAside[name] ?? 0));',
    'Math.max(0, limits[name] ?? 0, setAside[name] ?? 0);',
  ),
  planted(
    'returns more units of a wallet than it has',
    'sidecar/quota/next-call.ts',
    '  starts_at_ms: startsAtMs,\n  units,',
    '  starts_at_ms: startsAtMs,\n  units: window.name.wallet === undefined ? units : 1_000 * units,',
  ),
  planted(
    'stays with the wallet that its passport was moved from',
    'sidecar/quota/wallet-paths.ts',
    'news.hasChanged(this.#passport, count) || levels',
    'levels',
  ),
  planted(
    'charges a moved passport to both wallets',
    'sidecar/quota/wallet-paths.ts',
    '    this.#paths.delete(passportId);\n    if',
    `    const old = this.#paths.get(passportId)?.levels ?? [];
    levels = [...levels, ...old.filter(({ key }) => levels.every((each) => each.key !== key))];
    this.#paths.delete(passportId);
    if`,
  ),
  planted(
    'waits for units of a wallet that cannot come',
    'sidecar/quota/short-windows.ts',
    'window.name.wallet === undefined ? limit : 0',
    'limit',
  ),
  planted(
    'settles by the passport that drew on the wallet last',
    'sidecar/settle/settlement-of.ts',
    "if (window.wallet === undefined || facts.kind !== 'verified') return window;",
    'if (window.wallet !== null) return window;',
  ),
  planted(
    'permits by a standing approval more than each may spend',
    'shared/decision/find-standing-approval.ts',
    'if (amount > terms.eachMicroUsd || nowMs',
    'if (nowMs',
  ),
  planted(
    'goes on permitting by a standing approval that a person has ended',
    'sidecar/replica/replica-state.ts',
    '(gate.standing_approvals ?? []).map(parseStandingApprovalOfFeed)',
    `state.gates.get(gate.gate_id)?.standingApprovals ??
      (gate.standing_approvals ?? []).map(parseStandingApprovalOfFeed)`,
  ),
  {
    name: 'goes on permitting by a standing approval that has expired',
    changes: [
      {
        file: 'shared/decision/find-standing-approval.ts',
        from: 'if (amount > terms.eachMicroUsd || nowMs >= terms.expiresAtMs) continue;',
        to: 'if (amount > terms.eachMicroUsd) continue;',
      },
      {
        file: 'sidecar/quota/lease-holder.ts',
        from: 'for (const { held } of view.standingApprovals) held.lease.endIfOver(nowMs);',
        to: '',
      },
    ],
  },
  planted(
    'goes on permitting by a standing approval that is used up',
    'sidecar/quota/lease-holder.ts',
    'if (moneyMicroUsd > 0) for (const window of view.spendWindows) this.#takeFrom(window, moneyMicroUsd);',
    `if (moneyMicroUsd > 0)
      for (const window of view.spendWindows)
        if (window.name.standing_approval_id === undefined) this.#takeFrom(window, moneyMicroUsd);`,
  ),
  planted(
    'takes nothing from wallets of another account',
    'sidecar/quota/wallet-paths.ts',
    'windows.map(({ kind, window, lane, limit = Number.MAX_SAFE_INTEGER }) => ({',
    'windows.filter((each) => each.limit !== undefined).map(({ kind, window, lane, limit = 0 }) => ({',
  ),
  planted(
    'keeps idle units of wallets of another account',
    'sidecar/quota/next-call.ts',
    'if (units > 0 && !asks.has(window))',
    'if (units > 0 && !asks.has(window) && window.lease.limit !== Number.MAX_SAFE_INTEGER)',
  ),
  planted(
    'does not hear that a wallet above was moved',
    'sidecar/quota/wallet-paths.ts',
    'levels.some(({ key }) => news.hasChanged(key, count))',
    'levels.slice(0, 1).some(({ key }) => news.hasChanged(key, count))',
  ),
  planted(
    'names the wallet of now for what the one before has paid',
    'control-plane/quota/former-places.ts',
    "return had ? (wallets[0] ?? null) : 'never';",
    "return had ? (current[0] ?? null) : 'never';",
  ),
  planted(
    'refunds the same money twice',
    'control-plane/outcomes/permit-change.ts',
    `    countsMicroUsd: after,
    refundedMicroUsd`,
    `    countsMicroUsd,
    refundedMicroUsd`,
  ),
  planted(
    'gives back with a refund what was refunded before',
    'control-plane/outcomes/permit-change.ts',
    "return changed(refunded, 'refunded', { before: countsMicroUsd, after });",
    `const before = (countsMicroUsd + state.refundedMicroUsd) as MicroUsd;
  return changed(refunded, 'refunded', { before, after });`,
  ),
  planted(
    'refunds money and keeps its room',
    'control-plane/outcomes/permit-change.ts',
    "return changed(refunded, 'refunded', { before: countsMicroUsd, after });",
    "return changed(refunded, 'refunded', { before: after, after });",
  ),
  planted(
    'records no hold',
    'sidecar/decide/record.ts',
    'if (hold !== null) extras.hold_expires_at_ms = hold.expiresAtMs;',
    '',
  ),
  planted(
    'forgets in the book what an outcome leaves of a hold',
    'control-plane/book/entry.ts',
    'money: before.own - after.own }',
    "money: to === 'free' && after.own > 0 ? 0 : before.own - after.own }",
  ),
  planted(
    'forgets in the book the money of a void',
    'control-plane/book/entry.ts',
    '[...moved(event.before, nothing, event.to), {',
    '[{',
  ),
  planted(
    'forgets in the book the request of a void',
    'control-plane/book/entry.ts',
    "{ from: 'used', to: 'free', money: 0, requests: 1 }",
    '',
  ),
  planted(
    'forgets in the book what was never settled',
    'control-plane/book/entry.ts',
    "return [{ from: 'lease', to: 'free', money: event.money, requests: 1 }];",
    'return [];',
  ),
  planted(
    'frees in the book what was never settled as if it was used',
    'control-plane/book/entry.ts',
    "return [{ from: 'lease', to: 'free', money: event.money, requests: 1 }];",
    "return [{ from: 'used', to: 'free', money: event.money, requests: 1 }];",
  ),
];
