import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { defaultIssuerName } from '../../shared/model/issuer.ts';
import { keyLabel } from '../../shared/model/labels.ts';
import { walletAlertAtDefault } from '../../shared/model/wallet.ts';
import type { Work } from '../base/host.ts';
import { jsonLine } from '../base/print.ts';
import { writeYaml } from '../base/read-yaml.ts';
import { type Found, keysById, readAccount, readGates } from './apply-current.ts';
import { issuerPrefix, type Members } from './apply-desired.ts';
import { targetVariable } from './target-variable.ts';

const header = '# Written by agent-trust export, without secrets, API keys and passports.\n';

/**
 * `agent-trust export`: the account as a file of `agent-trust apply`, in the order of the names. An empty
 * account that gets the file then exports the same. The default issuer is not in it: each account makes its
 * own.
 */
export async function exportAccount({ client, host, print }: Work): Promise<undefined> {
  const account = await readAccount(client, { wallets: 'if allowed' });
  if (account.wallets === null) print.say('The key may not read wallets: they are not in the file.');
  // Of pasted keys no answer says more than their names.
  const issuers = sorted(account.issuers).filter(
    ({ name, isPasted }) => name !== defaultIssuerName && isPasted !== true,
  );
  const listed = sorted(account.gates);
  const gates = await readGates(
    client,
    listed.map(({ id }) => id),
    { withCatalogs: true },
  );
  const ids = new Set(issuers.map(({ id }) => id));
  const issuerKeys = new Map([...keysById(account.issuers)].filter(([id]) => ids.has(id)));
  const variables = new Set<string>();
  const channels = sorted(account.channels).filter(({ isOrphan }) => isOrphan !== true);
  if (channels.length < account.channels.size)
    print.say('Channels of deleted gates, which tell nobody, are not in the file.');
  const file = {
    version: 1,
    wallets: sorted(account.wallets ?? new Map()).map(({ key, name, members }) => ({
      ...key,
      name,
      ...shortened(members, { share: 'pot', alert_at: walletAlertAtDefault, status: 'active' }),
    })),
    issuers: issuers.map(({ key, name, members }) => {
      // An id is of one account.
      const { wallet_id: _id, ...rest } = members;
      return { ...key, name, ...shortened(rest, { status: 'active' }) };
    }),
    templates: sorted(account.templates).map(({ key, name, members }) => ({
      ...key,
      name,
      ...shortened(members),
    })),
    gates: listed.flatMap(({ id, key, name }) => {
      const gate = gates.get(id);
      if (gate === undefined) return [];
      const { constraints, ...members } = gate.members;
      const own = withIssuerKeys(constraints as Members, issuerKeys);
      const catalog = gate.catalog === null ? {} : { catalog: shortCatalog(gate.catalog) };
      return [{ ...key, name, ...shortened({ ...members, constraints: own }), ...catalog }];
    }),
    webhooks: sorted(account.webhooks).map(({ key, name, members }) => ({
      ...key,
      url: name,
      ...shortened(members, { status: 'enabled' }),
    })),
    channels: channels.map(({ name, members }) => {
      const { target: _stays, ...rest } = members;
      const defaults = { status: 'enabled', after_s: 0 };
      return { name, target_env: targetVariable(name, variables), ...shortened(rest, defaults) };
    }),
  };
  host.output.write(print.isJson ? jsonLine(file) : `${header}${writeYaml(file)}`);
  return undefined;
}

/** In the order of the names, each with its key where a file gave it one, and where its name does not do. */
const sorted = (found: Found) =>
  [...found]
    .toSorted(([key, one], [other, { name }]) =>
      one.name === name ? (key < other ? -1 : 1) : one.name < name ? -1 : 1,
    )
    .map(([own, one]) => {
      const isTold = own !== one.label && (own === one.name || own === one.path);
      return { ...one, key: isTold ? {} : { key: own } };
    });

/** Without members that have their default. */
const shortened = (members: Members, defaults: Members = {}): Members =>
  Object.fromEntries(
    Object.entries(members)
      .map(([name, value]) => [name, marked.includes(name) ? withoutKey(value) : value] as const)
      .filter(([name, value]) => value !== defaults[name] && !isNothing(value)),
  );

/** Where `apply` keeps the key. */
const marked = ['labels', 'metadata'];

function withoutKey(value: unknown): unknown {
  const { [keyLabel]: _key, ...rest } = value as Members;
  return rest;
}

const isNothing = (value: unknown): boolean =>
  value === null ||
  (Array.isArray(value) && value.length === 0) ||
  (isJsonObject(value) && Object.keys(value).length === 0);

function shortCatalog({ permissions, ...more }: Members): Members {
  const entries = Array.isArray(permissions) ? permissions : [];
  return { ...more, permissions: entries.map((entry) => shortened(entry, { requires_approval: false })) };
}

/** Keys are those of the file: an issuer that is not in it keeps its id. */
function withIssuerKeys(constraints: Members, keys: ReadonlyMap<string, string>): Members {
  const { trusted_issuers: ids } = constraints;
  if (!Array.isArray(ids)) return constraints;
  const named = ids.map((id: string) => (keys.has(id) ? `${issuerPrefix}${keys.get(id)}` : id));
  return { ...constraints, trusted_issuers: named };
}
