import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { api } from '../api/client.ts';
import { useSession } from '../api/session.tsx';

const shortId = (id: string): string => `${id.slice(0, id.indexOf('_') + 1)}…${id.slice(-6)}`;

/** The name of a gate with a link to it; its id where the name is not to be had. */
export function GateName({ id }: { readonly id: string | null }): ReactNode {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['gates', 'one', id],
    queryFn: () => api.gates.get(id ?? ''),
    enabled: id !== null && may('gates:read'),
    staleTime: 300_000,
    retry: false,
  });
  if (id === null) return <span className="soft">no gate</span>;
  return (
    <Link to={`/gates/${id}`} title={id}>
      {query.data?.name ?? shortId(id)}
    </Link>
  );
}

/** The name of an agent by its passport; the id where the name is not to be had. */
export function PassportName({ id }: { readonly id: string | null }): ReactNode {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['passports', 'one', id],
    queryFn: () => api.passports.get(id ?? ''),
    enabled: id !== null && may('passports:read'),
    staleTime: 300_000,
    retry: false,
  });
  if (id === null) return <span className="soft">did not verify</span>;
  return (
    <Link to={`/passports/${id}`} title={id}>
      {query.data?.agent_name ?? shortId(id)}
    </Link>
  );
}
