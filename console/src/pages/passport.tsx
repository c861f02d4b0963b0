import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress, useId } from '../api/address.ts';
import { api, type Passport, type Revocation } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge, Tier } from '../ui/badge.tsx';
import { Id } from '../ui/copy.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { count } from '../ui/format.ts';
import { JsonView } from '../ui/json-view.tsx';
import { Card, Facts, PageHead, Problem, Tabs, Waiting } from '../ui/page.tsx';
import { policyInWords } from '../ui/policy.ts';
import { Ago, Time } from '../ui/time.tsx';
import { AgentDecisions } from './agent-decisions.tsx';
import { PassportWallet } from './passport-wallet.tsx';
import { RecordChain } from './record-chain.tsx';

export default function PassportPage(): ReactNode {
  const id = useId();
  const { search } = useAddress();
  const tab = search['tab'] ?? '';
  const query = useQuery({
    queryKey: ['passports', 'one', id],
    queryFn: () => api.passports.get(id),
    refetchInterval: pollMs(),
  });
  const [revocation, setRevocation] = useState<Revocation | null>(null);
  if (query.isPending) return <Waiting what="the passport" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const passport = query.data;
  return (
    <>
      <PageHead
        title={passport.agent_name}
        above={{ to: '/passports', label: 'Passports' }}
        actions={<Actions passport={passport} onRevoked={setRevocation} />}
      >
        <span className="row">
          <Badge value={passport.status} />
          <Tier tier={passport.trust_tier} />
          <Id id={passport.passport_id} what="passport id" />
        </span>
      </PageHead>
      <Suspensions passport={passport} />
      {revocation === null ? null : <Propagation id={id} revocation={revocation} />}
      <Tabs
        label="Parts of this passport"
        tabs={[
          { name: '', label: 'Passport', isCurrent: tab === '' },
          { name: 'chain', label: 'What it did', isCurrent: tab === 'chain' },
          { name: 'json', label: 'JSON', isCurrent: tab === 'json' },
        ]}
      />
      {tab === 'chain' ? (
        <>
          <AgentDecisions passportId={id} />
          <Chain id={id} />
        </>
      ) : tab === 'json' ? (
        <JsonView value={passport} />
      ) : (
        <Parts passport={passport} />
      )}
    </>
  );
}

/** Whatever of it stands blocks the passport. */
function Suspensions({ passport }: { readonly passport: Passport }): ReactNode {
  const { may } = useSession();
  const end = useAction({
    run: (issuerId: string) => api.passports.reactivate(passport.passport_id, { issuer_id: issuerId }),
    changes: ['passports'],
    done: 'Ended what this issuer had against it.',
  });
  if (passport.suspended_by.length === 0) return null;
  return (
    <Card title="Suspended">
      <ul className="stack tight">
        {passport.suspended_by.map(({ cause, since, event, owner }) => (
          <li key={`${cause} ${owner ?? ''}`}>
            By {cause === 'account' ? 'this account' : <code>{cause}</code>}
            {owner === undefined ? '' : `, with its owner ${owner}`}, <Ago at={since} />
            {event === null ? '' : `: ${event.split('/').at(-1)}`}{' '}
            {cause === 'account' || owner !== undefined || !may('passports:revoke') ? null : (
              <button
                type="button"
                className="button"
                disabled={end.isPending}
                onClick={() => end.mutate(cause)}
              >
                End it
              </button>
            )}
          </li>
        ))}
      </ul>
      {end.error === null ? null : <Problem error={end.error} />}
    </Card>
  );
}

function Parts({ passport }: { readonly passport: Passport }): ReactNode {
  const limits = policyInWords('', passport.constraints).filter(
    (sentence) => !/^Trust level|issued are trusted/.test(sentence),
  );
  return (
    <div className="columns">
      <Card title="The agent">
        <Facts
          items={[
            ['Agent id', <Id key="agent" id={passport.agent_id} what="agent id" />],
            ['May do', <code key="may">{passport.permissions.join('  ')}</code>],
            ['Issued', <Time key="issued" at={passport.issued_at} />],
            ['Ends', <Time key="ends" at={passport.expires_at} />],
            ['Issuer', <code key="issuer">{passport.issuer_id}</code>],
            ['Owner', passport.owner ?? 'none'],
            ['Acts for', passport.user ?? (passport.federated ? 'as each token says' : 'nobody')],
            ['Wallet', <PassportWallet key="wallet" passport={passport} />],
            ['Public key', <code key="key">{passport.public_key}</code>],
          ]}
        />
      </Card>
      <Card title="Use">
        <Facts
          items={[
            ['Permitted', passport.use_count === 1 ? 'once' : `${count(passport.use_count)} times`],
            ['Last', <Ago key="last" at={passport.last_used_at} />],
            ...(passport.revoked_at === null
              ? []
              : ([
                  ['Revoked', <Time key="revoked" at={passport.revoked_at} />],
                  ['Reason', passport.revocation_reason],
                  ['By', <code key="by">{passport.revoked_by?.id ?? 'unknown'}</code>],
                ] as const)),
          ]}
        />
        <Link to="/attestations" search={{ passport_id: passport.passport_id }}>
          All decisions
        </Link>
      </Card>
      <Card title="Limits of its own">
        {limits.length === 0 ? (
          <p className="soft">None. The limits of the gates apply.</p>
        ) : (
          <ul className="stack tight">
            {limits.map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        )}
      </Card>
    </div>
  );
}

function Chain({ id }: { readonly id: string }): ReactNode {
  const query = useQuery({
    queryKey: ['attestations', 'of', id, 'chain'],
    queryFn: () => api.attestations.list({ passport_id: id, limit: 100 }),
    refetchInterval: pollMs(),
  });
  if (query.isPending) return <Waiting what="the chain" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const { attestations } = query.data;
  return (
    <Card title="Chain of records">
      {attestations.length === 0 ? (
        <p className="soft">No gate has decided about this passport yet.</p>
      ) : (
        <RecordChain records={attestations} />
      )}
      {query.data.next_cursor === null ? null : (
        <Link to="/attestations" search={{ passport_id: id }}>
          Older records
        </Link>
      )}
    </Card>
  );
}

function Actions({
  passport,
  onRevoked,
}: {
  readonly passport: Passport;
  onRevoked(revocation: Revocation): void;
}): ReactNode {
  const { may } = useSession();
  const [isRevoking, setRevoking] = useState(false);
  const changes = ['passports'];
  const suspend = useAction({
    run: () => api.passports.suspend(passport.passport_id),
    changes,
    done: 'Suspended. Gates block it until it is reactivated.',
  });
  const reactivate = useAction({
    run: () => api.passports.reactivate(passport.passport_id),
    changes,
    done: 'Reactivated.',
  });
  // What an owner or an issuer has against it stays: the page says what stands.
  const isOwn = passport.suspended_by.some(({ cause, owner }) => cause === 'account' && owner === undefined);
  if (!may('passports:revoke') || passport.status === 'revoked') return null;
  const error = suspend.error ?? reactivate.error;
  return (
    <>
      {passport.status === 'active' || (passport.status === 'suspended' && !isOwn) ? (
        <button
          type="button"
          className="button"
          disabled={suspend.isPending}
          onClick={() => suspend.mutate(undefined)}
        >
          Suspend
        </button>
      ) : null}
      {passport.status === 'suspended' && isOwn ? (
        <button
          type="button"
          className="button"
          disabled={reactivate.isPending}
          onClick={() => reactivate.mutate(undefined)}
        >
          Reactivate
        </button>
      ) : null}
      <button type="button" className="button danger" onClick={() => setRevoking(true)}>
        Revoke
      </button>
      {error === null ? null : <Problem error={error} />}
      {isRevoking ? (
        <RevokeDialog
          passport={passport}
          onClose={() => setRevoking(false)}
          onRevoked={(revocation) => {
            setRevoking(false);
            onRevoked(revocation);
          }}
        />
      ) : null}
    </>
  );
}

function RevokeDialog({
  passport,
  onClose,
  onRevoked,
}: {
  readonly passport: Passport;
  onClose(): void;
  onRevoked(revocation: Revocation): void;
}): ReactNode {
  const [reason, setReason] = useState('');
  const revoke = useAction({
    run: () =>
      api.passports.revoke(passport.passport_id, reason.trim() === '' ? {} : { reason: reason.trim() }),
    changes: ['passports'],
    onDone: onRevoked,
  });
  return (
    <Dialog title={`Revoke the passport of ${passport.agent_name}?`} onClose={onClose}>
      <p>
        Every gate blocks it from then on, for ever. The agent needs a new passport. To stop it only for a
        while, suspend it.
      </p>
      <Form error={revoke.error} onSubmit={() => revoke.mutate(undefined)}>
        <TextField
          label="Reason"
          param="reason"
          hint="Kept in the record, such as: laptop stolen."
          maxLength={500}
          value={reason}
          onChange={setReason}
        />
        {revoke.error === null ? null : <Problem error={revoke.error} />}
        <DialogActions onCancel={onClose} submit="Revoke for ever" isBusy={revoke.isPending} isDanger />
      </Form>
    </Dialog>
  );
}

/** How many sidecars know, asked again until all of them do: a repeated revocation answers the first one. */
function Propagation({
  id,
  revocation,
}: {
  readonly id: string;
  readonly revocation: Revocation;
}): ReactNode {
  const isWhole = ({ propagation }: Revocation) => propagation.acknowledged >= propagation.sidecars;
  const query = useQuery({
    queryKey: ['propagation', id],
    queryFn: () => api.passports.revoke(id, {}, { wait_ms: 1_000 }),
    initialData: revocation,
    refetchInterval: ({ state }) => (state.data !== undefined && isWhole(state.data) ? false : 500),
  });
  const { sidecars, acknowledged, silent } = query.data.propagation;
  const done = isWhole(query.data);
  return (
    <div className={`notice ${done ? 'good' : 'warn'}`} role="status">
      <strong>
        {sidecars === 0
          ? 'Revoked. No sidecar is connected.'
          : done
            ? `Revoked. ${sidecars === 1 ? 'The one connected sidecar knows' : `All ${sidecars} connected sidecars know`}.`
            : `Revoked. ${acknowledged} of ${sidecars} sidecars know so far.`}
      </strong>
      <div className="progress" aria-hidden="true">
        <div style={{ width: `${sidecars === 0 ? 100 : (acknowledged / sidecars) * 100}%` }} />
      </div>
      {silent.length === 0 ? null : (
        <span>
          {silent.length} more fell silent in the last minutes: they decide on what they know for as long as
          the trust level of the gate allows.
        </span>
      )}
    </div>
  );
}
