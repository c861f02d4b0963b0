import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { api } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import { RowLink } from './row-link.tsx';

const shortId = (id: string): string => `${id.slice(0, id.indexOf('_') + 1)}…${id.slice(-6)}`;

/**
 * Names are those of the newest 200, read in one request for all rows of a page: requests count towards the
 * plan of the account. Older ones show their id.
 */
const namesMost = 200;
const keptMs = 300_000;

/** The name of a gate with a link to it; its id if the name is unknown. */
export function GateName({ id }: { readonly id: string | null }): ReactNode {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['names', 'gates'],
    queryFn: async () => {
      const { items } = await api.gates.list({ limit: namesMost });
      return new Map(items.map(({ gate_id, name }) => [gate_id, name]));
    },
    enabled: may('gates:read'),
    staleTime: keptMs,
  });
  if (id === null) return <span className="soft">no gate</span>;
  return (
    <RowLink to={`/gates/${id}`} title={id}>
      {query.data?.get(id) ?? shortId(id)}
    </RowLink>
  );
}

/** The name of an agent by its passport; the id if the name is unknown. */
export function PassportName({ id }: { readonly id: string | null }): ReactNode {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['names', 'passports'],
    queryFn: async () => {
      const { items } = await api.passports.list({ limit: namesMost });
      return new Map(items.map(({ passport_id, agent_name }) => [passport_id, agent_name]));
    },
    enabled: may('passports:read'),
    staleTime: keptMs,
  });
  if (id === null) return <span className="soft">did not verify</span>;
  return (
    <RowLink to={`/passports/${id}`} title={id}>
      {query.data?.get(id) ?? shortId(id)}
    </RowLink>
  );
}
