import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { api } from '../api/client.ts';
import { people } from '../api/people.ts';
import { useSession } from '../api/session.tsx';
import { placeOfId } from '../navigation.ts';
import { RowLink } from './row-link.tsx';

const prefixOf = (id: string): string => id.slice(0, Math.max(0, id.indexOf('_')));
const shortId = (id: string): string => `${prefixOf(id)}_…${id.slice(-6)}`;

/**
 * Names are those of the newest 200, read in one request for all rows of a page: requests count towards the
 * plan of the account. Older ones show their id.
 */
const namesMost = 200;
const keptMs = 300_000;
const page = { limit: namesMost };

type Names = ReadonlyMap<string, string>;

/** By the prefix of the ids: the scope that their list needs, the key of its query, and how it is read. */
const kinds = {
  gate: {
    scope: 'gates:read',
    of: 'gates',
    read: async () => (await api.gates.list(page)).items.map(({ gate_id, name }) => [gate_id, name]),
  },
  pass: {
    scope: 'passports:read',
    of: 'passports',
    read: async () =>
      (await api.passports.list(page)).items.map(({ passport_id, agent_name }) => [passport_id, agent_name]),
  },
  key: {
    scope: 'keys:manage',
    of: 'api-keys',
    read: async () => (await api.apiKeys.list(page)).items.map(({ key_id, name }) => [key_id, name]),
  },
  usr: {
    scope: 'audit:read',
    of: 'people',
    read: async () => (await people.list(page)).items.map(({ user_id, name }) => [user_id, name]),
  },
  iss: {
    scope: 'issuers:read',
    of: 'issuers',
    read: async () => (await api.issuers.list(page)).items.map(({ issuer_id, name }) => [issuer_id, name]),
  },
  wal: {
    scope: 'wallets:read',
    of: 'wallets',
    read: async () => (await api.wallets.list(page)).items.map(({ wallet_id, name }) => [wallet_id, name]),
  },
  wh: {
    scope: 'webhooks:manage',
    of: 'webhooks',
    read: async () =>
      (await api.webhooks.list(page)).items.map(({ webhook_id, url }) => [webhook_id, url ?? webhook_id]),
  },
} as const satisfies Readonly<Record<string, { scope: string; of: string; read(): Promise<string[][]> }>>;

export type NamedKind = keyof typeof kinds;
const isNamed = (prefix: string): prefix is NamedKind => Object.hasOwn(kinds, prefix);

/** The names of all things of this kind, by their ids; null: of no kind. */
export function useNames(kind: NamedKind | null): UseQueryResult<Names> {
  const { may } = useSession();
  const asked = kind === null ? null : kinds[kind];
  return useQuery({
    queryKey: ['names', asked?.of ?? ''],
    queryFn: async () => new Map((await asked?.read())?.map(([id = '', name = '']) => [id, name])),
    enabled: asked !== null && may(asked.scope),
    staleTime: keptMs,
  });
}

/** The name of a gate with a link to it; its id if the name is unknown. */
export function GateName({ id }: { readonly id: string | null }): ReactNode {
  const { data } = useNames('gate');
  if (id === null) return <span className="soft">no gate</span>;
  return (
    <RowLink to={`/gates/${id}`} title={id}>
      {data?.get(id) ?? shortId(id)}
    </RowLink>
  );
}

/** The name of an agent by its passport; the id if the name is unknown. */
export function PassportName({ id }: { readonly id: string | null }): ReactNode {
  const { data } = useNames('pass');
  if (id === null) return <span className="soft">did not verify</span>;
  return (
    <RowLink to={`/passports/${id}`} title={id}>
      {data?.get(id) ?? shortId(id)}
    </RowLink>
  );
}

/** The name of a wallet with a link to it; its id if the name is unknown. */
export function WalletName({ id }: { readonly id: string }): ReactNode {
  const { data } = useNames('wal');
  return (
    <RowLink to={`/wallets/${id}`} title={id}>
      {data?.get(id) ?? shortId(id)}
    </RowLink>
  );
}

/** The name of whatever has this id, where it is known; else nothing, or the id. */
export function KnownName({
  id,
  isLink = false,
  orId = false,
}: {
  readonly id: string;
  readonly isLink?: boolean;
  readonly orId?: boolean;
}): ReactNode {
  const prefix = prefixOf(id);
  const { data } = useNames(isNamed(prefix) ? prefix : null);
  const name = data?.get(id);
  if (name === undefined) return orId ? <code>{id}</code> : null;
  const place = isLink ? placeOfId(id) : null;
  return place === null ? (
    <span title={id}>{name}</span>
  ) : (
    <RowLink to={place} title={id}>
      {name}
    </RowLink>
  );
}

/** What a field for an id offers while a part of a name is typed: `list` of the field is its `id`. */
export function NamedIds({ id, of }: { readonly id: string; readonly of: readonly NamedKind[] }): ReactNode {
  return (
    <datalist id={id}>
      {of.map((kind) => (
        <NamedOptions key={kind} kind={kind} />
      ))}
    </datalist>
  );
}

function NamedOptions({ kind }: { readonly kind: NamedKind }): ReactNode {
  const { data } = useNames(kind);
  return [...(data ?? [])].map(([each, name]) => (
    <option key={each} value={each}>
      {name}
    </option>
  ));
}
