import type { WalletCreation, WalletPatch } from '../../clients/node/src/generated/api.ts';
import { must } from '../../shared/errors/assert.ts';
import { walletDepthMax, walletsPerAccountMax } from '../../shared/model/wallet.ts';
import { parseWalletCreation } from '../../shared/wire/api/wallet.ts';
import { UsageError } from '../base/call-api.ts';
import type { Work } from '../base/host.ts';
import { given } from '../base/options.ts';
import { type Account, type CurrentWallet, type Found, keysById, readWholeWallets } from './apply-current.ts';
import type { Desired, Members } from './apply-desired.ts';
import type { ReadFile } from './apply-file.ts';
import { idsWith, type Label, mergePatchOf, onlyNew, type Step, stepOf } from './apply-steps.ts';
import { type ForestWallet, WalletForest } from './wallet-forest.ts';

interface Plan {
  readonly file: ReadFile;
  readonly desired: Desired;
  readonly account: Account;
  readonly prune: Label | null;
}

/**
 * The steps of wallets in an order in which the service takes each: parents are made before their children,
 * children are deleted before their parents, and limits of a parent are never passed by what is reserved of
 * it. `last` waits until issuers have other wallets. Throws UsageError for what the service would refuse.
 */
export async function planWallets(
  client: Work['client'],
  plan: Plan,
): Promise<{ readonly first: readonly Step[]; readonly last: readonly Step[] }> {
  const { desired, account, prune } = plan;
  const wallets: Found = account.wallets ?? new Map();
  const kept = desired.wallets.flatMap(({ key }) => wallets.get(key)?.id ?? []);
  const pruned = prune === null ? [] : idsWith(wallets, prune, new Set(kept));
  const changed = desired.wallets.flatMap((wanted) => {
    const current = wallets.get(wanted.key);
    const isAsIs = current === undefined || stepOf('wallet', wanted, current, wanted.members).length === 0;
    return isAsIs ? [] : [current.id];
  });
  const whole = await readWholeWallets(client, [...changed, ...pruned], wallets);
  const gone = new Set([...changed, ...pruned].filter((id) => !whole.has(id)));
  const now = forestOf(wallets, gone);
  const keyOf = (key: string): string => {
    const current = wallets.get(key);
    return current === undefined || gone.has(current.id) ? `new ${key}` : current.id;
  };
  refuseWhatCannotBe(plan, { wallets, gone, keyOf, pruned });
  const left = pruned.flatMap((id) => whole.get(id) ?? []);
  const keys = keysById(wallets);
  refuseFullOnes(plan, left, keys);
  const steps = desired.wallets.flatMap((wanted) => {
    const { key, parent, limits, share } = wanted;
    const listed = wallets.get(key) ?? null;
    const current = listed === null || gone.has(listed.id) ? null : (whole.get(listed.id) ?? listed);
    const wallet = { parent: parent === null ? null : keyOf(parent), limits, share };
    const made = stepOf('wallet', wanted, current, wanted.members);
    return made.map((step) => ({ step, key: keyOf(key), wallet }));
  });
  const deletions = left.map(({ id, name, etag, members }): Step => {
    const step = { kind: 'wallet', verb: 'delete', key: id, name, id, etag } as const;
    return { ...step, before: members, after: {} };
  });
  return inOrder(now, steps, { deletions, isOfIssuer: (id) => issuersOf(account, id).length > 0 });
}

/** As the list has them. */
function forestOf(wallets: Found, gone: ReadonlySet<string>): WalletForest {
  const forest = new WalletForest();
  for (const { id, walletId = null, members } of wallets.values()) {
    if (gone.has(id)) continue;
    const { limits, share } = parseWalletCreation({
      name: id,
      limits: members['limits'] as object,
      share: members['share'] as ForestWallet['share'],
    });
    forest.put(id, { parent: walletId, limits, share });
  }
  return forest;
}

/** Throws UsageError with the line of a wallet that the service could not have in the end. */
function refuseWhatCannotBe(
  { file, desired: { wallets: wanted } }: Plan,
  of: {
    readonly wallets: Found;
    readonly gone: ReadonlySet<string>;
    readonly keyOf: (name: string) => string;
    readonly pruned: readonly string[];
  },
): void {
  const { wallets, gone, keyOf, pruned } = of;
  const forest = forestOf(wallets, gone);
  const before = forestOf(wallets, gone);
  for (const id of pruned) forest.delete(id);
  const inFile = new Set(wanted.map(({ key }) => key));
  const placed = wanted.map(({ key: own, name, parent, limits, share }, index) => {
    if (parent !== null && !inFile.has(parent)) refuseParent(parent, { file, index, wallets, gone, pruned });
    const key = keyOf(own);
    forest.put(key, { parent: parent === null ? null : keyOf(parent), limits, share });
    return { key, at: `wallets.${index}`, name };
  });
  if (forest.size > walletsPerAccountMax)
    throw new UsageError(`An account has at most ${walletsPerAccountMax} wallets.`);
  for (const { key, at, name } of placed)
    if (forest.pathOf(key) === null)
      throw file.fault(`${at}.parent`, `The wallet "${name}" would be below itself.`);
  // A wallet of its file first: one that was moved may be too deep by what is below it.
  const isMoved = (key: string) => forest.get(key)?.parent !== before.get(key)?.parent;
  const deep =
    placed.find(({ key }) => (forest.pathOf(key)?.length ?? 0) > walletDepthMax) ??
    placed.find(({ key }) => isMoved(key) && forest.depthOf(key) > walletDepthMax);
  if (deep !== undefined)
    throw file.fault(
      `${deep.at}.parent`,
      `Wallets are at most ${walletDepthMax} deep: "${deep.name}", or one below it, would be deeper.`,
    );
  for (const { key, at, name } of placed) {
    const own = forest.overbookedOf(key);
    const above = own ?? forest.overbookedOf(forest.get(key)?.parent ?? null);
    if (above === null) continue;
    const whose = own === null ? 'that of its parent is less' : 'its own is less';
    throw file.fault(
      `${at}.limits`,
      `The reserved limits below a wallet may not sum to more than its own. "${name}": ${above} of children, where ${whose}.`,
    );
  }
}

function refuseParent(
  parent: string,
  of: {
    readonly file: ReadFile;
    readonly index: number;
    readonly wallets: Found;
    readonly gone: ReadonlySet<string>;
    readonly pruned: readonly string[];
  },
): void {
  const { file, index, wallets, gone, pruned } = of;
  const at = `wallets.${index}.parent`;
  const current = wallets.get(parent);
  if (current === undefined || gone.has(current.id))
    throw file.fault(at, `There is no wallet "${parent}", neither in the file nor in the account.`);
  if (pruned.includes(current.id))
    throw file.fault(at, `The wallet "${parent}" would be pruned: add it to the file.`);
}

/** Throws UsageError for a wallet that would be pruned, and that something is still in. */
function refuseFullOnes(
  { desired, account }: Plan,
  pruned: readonly CurrentWallet[],
  keys: ReadonlyMap<string, string>,
): void {
  const ids = new Set(pruned.map(({ id }) => id));
  const moved = new Set(desired.wallets.flatMap(({ key }) => account.wallets?.get(key)?.id ?? []));
  const others = [...(account.wallets?.values() ?? [])];
  for (const { id, name, passports } of pruned) {
    const child = others.find((each) => each.walletId === id && !ids.has(each.id) && !moved.has(each.id));
    const issuer = issuersOf(account, id).find((each) => !hasOtherWallet(each, desired, keys.get(id) ?? id));
    const user = desired.issuers.find(
      ({ members }) => members['wallet'] === keys.get(id) || members['wallet_id'] === id,
    );
    const inside = [
      ...(passports > 0 ? [`${passports} passport${passports === 1 ? '' : 's'}`] : []),
      ...(child === undefined ? [] : [`the wallet "${child.name}"`]),
      ...(issuer === undefined && user === undefined ? [] : [`the issuer "${issuer ?? user?.name}"`]),
    ];
    if (inside.length > 0)
      throw new UsageError(
        `The wallet "${name}" ${id} cannot be pruned: ${inside.join(', ')} would be left without it. Move them first.`,
      );
  }
}

const issuersOf = ({ issuers }: Account, walletId: string): readonly string[] =>
  [...issuers].flatMap(([key, each]) => (each.walletId === walletId ? key : []));

const hasOtherWallet = (issuer: string, desired: Desired, wallet: string): boolean =>
  desired.issuers.some(
    ({ key, members }) => key === issuer && members['wallet'] !== undefined && members['wallet'] !== wallet,
  );

/** Tries one after another, as the service would: what is refused now may be taken after others. */
function inOrder(
  forest: WalletForest,
  steps: readonly { readonly step: Step; readonly key: string; readonly wallet: ForestWallet }[],
  of: { readonly deletions: readonly Step[]; readonly isOfIssuer: (id: string) => boolean },
): { readonly first: readonly Step[]; readonly last: readonly Step[] } {
  const first: Step[] = [];
  let changes = steps;
  let deletions = of.deletions;
  for (let count = -1; count !== first.length; ) {
    count = first.length;
    changes = changes.filter(({ step, key, wallet }) => {
      const isTaken = forest.tryPut(key, wallet);
      if (isTaken) first.push(step);
      return !isTaken;
    });
    if (changes.length === 0) break;
    // Only where nothing else can go on: so that as much as possible is there before anything is lost.
    if (count !== first.length) continue;
    deletions = deletions.filter((step) => {
      const isFree = step.id !== null && forest.childrenOf(step.id).length === 0 && !of.isOfIssuer(step.id);
      if (!isFree || step.id === null) return true;
      forest.delete(step.id);
      first.push(step);
      return false;
    });
  }
  if (changes.length > 0) {
    const names = changes.map(({ step }) => `"${step.name}"`).join(', ');
    throw new UsageError(
      `The wallets ${names} cannot change one after another, as the service does it: on the way one would be below itself, too deep, or reserve more than its parent has. Do it in two files.`,
    );
  }
  const depth = ({ id }: Step): number => (id === null ? 0 : (forest.pathOf(id)?.length ?? 0));
  return { first, last: deletions.toSorted((one, other) => depth(other) - depth(one)) };
}

/** Ids of wallets by their keys: of those that this run made, and of those that were there. */
export type WalletIds = (key: string) => string | null;

/** Resolves to the id. */
export async function runWalletStep(
  client: Work['client'],
  { key, name, id, etag, before, after, verb }: Step,
  idOf: WalletIds,
): Promise<string> {
  const ifMatch = given({ ifMatch: etag });
  if (verb === 'delete' && id !== null) {
    await client.wallets.delete(id, ifMatch);
    return id;
  }
  const { parent, status, ...own } = after;
  const parentId = typeof parent === 'string' ? must(idOf(parent), 'a parent of the file is there') : null;
  if (id === null) {
    const body = { ...own, name, parent_wallet_id: parentId } as WalletCreation;
    const made = await client.wallets.create(body, onlyNew({ key, name, after }));
    if (status === 'frozen') await client.wallets.freeze(made.wallet_id);
    return made.wallet_id;
  }
  const { parent: oldParent, status: oldStatus, ...old } = before;
  const patch = {
    ...mergePatchOf(old, own),
    ...(parent === oldParent ? {} : { parent_wallet_id: parentId }),
  };
  // Also where nothing but the status differs: an empty patch tells whether it is as the plan saw it.
  await client.wallets.update(id, patch as WalletPatch, ifMatch);
  if (status !== undefined && status !== oldStatus)
    await client.wallets[status === 'frozen' ? 'freeze' : 'unfreeze'](id);
  return id;
}

/** Members of an issuer as the service takes them. */
export function withWalletId({ wallet, ...members }: Members, idOf: WalletIds): Members {
  if (wallet === undefined) return members;
  const id = typeof wallet === 'string' ? must(idOf(wallet), 'a wallet of the file is there') : null;
  return { ...members, wallet_id: id };
}
