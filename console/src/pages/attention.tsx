import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { api } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { isUnconfirmed, people } from '../api/people.ts';
import { useSession } from '../api/session.tsx';
import { statistics } from '../api/statistics.ts';
import { count } from '../ui/format.ts';
import { nameOf, usedPart } from '../ui/limits.tsx';
import { GateName } from '../ui/names.tsx';
import { Card, Waiting } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';
import { ailing, useSidecars } from './sidecars.tsx';

/** After so long a key should be followed by a new one. */
const keyAgeMsMax = 365 * 86_400_000;

interface Item {
  readonly id: string;
  readonly text: ReactNode;
}

/** Items that need attention now. */
export function Attention(): ReactNode {
  const { may } = useSession();
  const ready = useQuery({
    queryKey: ['ready'],
    queryFn: () => api.service.ready(),
    refetchInterval: pollMs(15_000),
  });
  const items = [
    ...useApprovals(),
    ...useService(ready.data),
    ...useOwnSidecars(),
    ...useWebhooks(),
    ...useChannels(),
    ...useLimits(),
    ...useWallets(),
    ...useKeys(),
    ...useApiKeys(),
    ...usePeople(),
    ...useAnswerers(),
  ];
  return (
    <Card title="Needs attention">
      {ready.isPending ? (
        <Waiting what="the state of the service" />
      ) : items.length === 0 ? (
        <p className="soft">
          Nothing{may('webhooks:manage') ? '' : ' that your role can see'}. This is where failing webhooks and
          channels, sidecars that are behind, limits and keys near their end, wallets that are used up and
          requests that wait for a person appear.
        </p>
      ) : (
        <ul className="attention">
          {items.map(({ id, text }) => (
            <li key={id}>{text}</li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function useApprovals(): readonly Item[] {
  const { may } = useSession();
  // The same query as that of the count in the navigation.
  const { data } = useQuery({
    queryKey: ['approvals', 'waiting'],
    queryFn: () => api.approvals.list({ status: 'pending', limit: 1 }),
    enabled: may('approvals:read'),
  });
  const total = data?.total ?? 0;
  if (total === 0) return [];
  const text = `${count(total)} ${total === 1 ? 'request waits' : 'requests wait'} for a person`;
  return [{ id: 'approvals', text: <Link to="/approvals">{text}</Link> }];
}

type Readiness = Awaited<ReturnType<typeof api.service.ready>>;

function useService(service: Readiness | undefined): readonly Item[] {
  if (service === undefined) return [];
  const offsetMs = service.sidecars?.clock_offset_ms_max ?? 0;
  return [
    {
      id: 'ready',
      isSo: service.status !== 'ready',
      text: `The service is not ready: the database is ${service.database.replace('_', ' ')}.`,
    },
    {
      id: 'push',
      isSo: service.push === 'disconnected',
      text: 'Changes are not pushed to the sidecars; they ask by themselves, within 2 seconds.',
    },
    {
      id: 'sidecars',
      isSo: service.sidecars?.connected === 0,
      text: 'No sidecar is connected, so decisions come from the control plane alone.',
    },
    { id: 'clock', isSo: offsetMs > 1_000, text: `The clock of a sidecar is off by ${count(offsetMs)} ms.` },
  ].filter(({ isSo }) => isSo);
}

function useOwnSidecars(): readonly Item[] {
  const { may } = useSession();
  const { data } = useSidecars(may('gates:read'));
  const number = ailing(data?.items ?? []).length;
  if (number === 0) return [];
  return [
    {
      id: 'behind',
      text: `${number === 1 ? 'A sidecar is' : `${count(number)} sidecars are`} missing or behind.`,
    },
  ];
}

/** Of an endpoint or a channel: sending fails, or has stopped for it. */
const isFailing = ({
  status,
  failing_since,
  disabled_reason,
}: {
  readonly status: string;
  readonly failing_since: string | null;
  readonly disabled_reason: string | null;
}): boolean => failing_since !== null || (status === 'disabled' && disabled_reason !== 'owner');

function useWebhooks(): readonly Item[] {
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ['webhooks', 'attention'],
    queryFn: () => api.webhooks.list({ limit: 50 }),
    enabled: may('webhooks:manage'),
    refetchInterval: pollMs(30_000),
  });
  return (data?.items ?? []).filter(isFailing).map(({ webhook_id, url, status }) => ({
    id: webhook_id,
    text: (
      <>
        {status === 'disabled' ? 'Deliveries have stopped: ' : 'Deliveries fail: '}
        <Link to={`/webhooks/${webhook_id}`}>{url ?? webhook_id}</Link>
      </>
    ),
  }));
}

function useChannels(): readonly Item[] {
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ['channels', 'attention'],
    queryFn: () => api.channels.list({ limit: 50 }),
    enabled: may('webhooks:manage'),
    refetchInterval: pollMs(30_000),
  });
  return (data?.items ?? []).filter(isFailing).map(({ channel_id, name, status }) => ({
    id: channel_id,
    text: (
      <>
        {status === 'disabled' ? 'Messages have stopped: ' : 'Messages fail: '}
        <Link to={`/channels/${channel_id}`}>{name}</Link>
      </>
    ),
  }));
}

/** From this part on a limit is nearly used up. */
const nearly = 0.9;
/** Of the newest decisions, so many are looked at for gates, and the limits of so many gates. */
const decisionsLookedAt = 100;
const gatesLookedAt = 10;

/** The gates that decided last: whose limit is used up is among them, for it blocks. */
function useLimits(): readonly Item[] {
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ['limits', 'attention'],
    queryFn: async () => {
      const { attestations } = await api.attestations.list({ limit: decisionsLookedAt });
      const ids = [...new Set(attestations.flatMap(({ gate_id }) => gate_id ?? []))].slice(0, gatesLookedAt);
      const used = await Promise.allSettled(
        ids.map(async (id) => ({ id, limits: (await statistics.usage(id)).limits })),
      );
      // One may have been deleted meanwhile.
      return used.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
    },
    enabled: may('attestations:read') && may('gates:read'),
    refetchInterval: pollMs(60_000),
  });
  return (data ?? []).flatMap(({ id, limits }) =>
    limits
      .filter((limit) => limit.limit > 0 && (usedPart(limit) ?? 0) >= nearly)
      .map((limit) => ({
        id: `${id} ${limit.unit} ${limit.window}`,
        text: (
          <>
            {Math.floor((usedPart(limit) ?? 0) * 100)} % of {nameOf(limit).toLowerCase()} are used at{' '}
            <GateName id={id} />
          </>
        ),
      })),
  );
}

/** Of the newest wallets, the usage of so many is looked at, the highest first: those below wait for them. */
const walletsLookedAt = 20;

function useWallets(): readonly Item[] {
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ['wallets', 'attention'],
    queryFn: async () => {
      const { items } = await api.wallets.list({ limit: 200 });
      const highest = items.toSorted((one, other) => one.path.length - other.path.length);
      const read = await Promise.allSettled(
        highest.slice(0, walletsLookedAt).map(({ wallet_id: id }) => api.wallets.get(id)),
      );
      // One may have been deleted meanwhile.
      return read.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
    },
    enabled: may('wallets:read'),
    refetchInterval: pollMs(60_000),
  });
  const isUsedUp = ({ limit, used, held }: { limit: number; used: number; held: number }): boolean =>
    limit > 0 && Math.round((used + held) * 1e6) >= Math.round(limit * 1e6);
  return (data ?? [])
    .filter(({ usage }) => Object.values(usage).some((each) => each !== undefined && isUsedUp(each)))
    .map(({ wallet_id: id, name }) => ({
      id,
      text: (
        <>
          The wallet <Link to={`/wallets/${id}`}>{name}</Link> is used up
        </>
      ),
    }));
}

/** Keys whose end is so near should have a successor. */
const keyEndsMs = 14 * 86_400_000;

function useApiKeys(): readonly Item[] {
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ['api-keys', 'attention'],
    queryFn: () => api.apiKeys.list({ limit: 100 }),
    enabled: may('keys:manage'),
    refetchInterval: pollMs(60_000),
  });
  return (data?.items ?? []).flatMap(({ key_id: id, name, expires_at: at }) => {
    const leftMs = at === null ? Number.POSITIVE_INFINITY : Date.parse(at) - Date.now();
    if (at === null || leftMs <= 0 || leftMs > keyEndsMs) return [];
    const text = (
      <>
        The API key <Link to="/api-keys">{name}</Link> ends <Ago at={at} />
      </>
    );
    return [{ id, text }];
  });
}

/** People whom a key invited, and nobody has confirmed. */
function usePeople(): readonly Item[] {
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ['people', 'attention'],
    queryFn: () => people.list({ limit: 200 }),
    enabled: may('users:manage') && may('audit:read'),
    refetchInterval: pollMs(60_000),
  });
  return (data?.items ?? []).filter(isUnconfirmed).map(({ user_id: id, name, email }) => ({
    id,
    text: (
      <>
        <Link to="/people" search={{ name: email }}>
          {name}
        </Link>{' '}
        answers no approvals until you confirm them: an API key has invited them
      </>
    ),
  }));
}

/** Gates whose approvals wait in vain. */
function useAnswerers(): readonly Item[] {
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ['gates', 'attention'],
    queryFn: () => api.gates.list({ limit: 200 }),
    enabled: may('gates:read'),
    refetchInterval: pollMs(60_000),
  });
  return (data?.items ?? []).flatMap(({ gate_id: id, approvers }) =>
    approvers === null || approvers.able >= approvers.count
      ? []
      : [
          {
            id,
            text: (
              <>
                Too few people could answer the approvals of <GateName id={id} />
              </>
            ),
          },
        ],
  );
}

/** The keys of the service, for those who can rotate them. */
function useKeys(): readonly Item[] {
  const { may, session, mode } = useSession();
  const mayRotate = may('admin:*') && session.account.is_operator && mode === 'live';
  const { data } = useQuery({
    queryKey: ['signing-keys'],
    queryFn: () => api.signingKeys.jwks(),
    enabled: mayRotate,
    staleTime: 600_000,
  });
  const old = (data?.keys ?? []).filter(
    ({ retired_at, nbf }) => retired_at === null && Date.now() - nbf * 1_000 > keyAgeMsMax,
  );
  return old.map(({ kid, purpose }) => ({
    id: kid,
    text: <Link to="/signing-keys">The signing key for {purpose}s is over a year old</Link>,
  }));
}
