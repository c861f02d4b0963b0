import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { type Attestation, api } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { useSession } from '../api/session.tsx';
import { Badge } from '../ui/badge.tsx';
import { words } from '../ui/format.ts';
import { Card, PageHead, Problem, Waiting } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';
import { Code } from './first-request-code.tsx';
import { ChosenGate, type Gates, KeyStep, MakeGate } from './first-request-gate.tsx';
import { type Secrets, Step } from './first-request-step.tsx';

/** The newest gates, of which the path can be about one. */
const gatesOffered = 50;
/** Newest records of the gate, among which tests of the gate are passed over. */
const recordsLookedAt = 20;

export default function FirstRequestPage(): ReactNode {
  return (
    <>
      <PageHead title="First guarded request">
        Four steps from nothing to a signed record. Leave at any time: what you have made is found again.
      </PageHead>
      <FirstRequestPath />
    </>
  );
}

/** The steps. What is done is read from the account; only secrets that are shown once are lost by a reload. */
function FirstRequestPath(): ReactNode {
  const { search } = useAddress();
  const [key, setKey] = useState<string | null>(null);
  const [passport, setPassport] = useState<string | null>(null);
  const gates = useGates();
  if (gates.isPending) return <Waiting what="your gates" />;
  if (gates.isError) return <Problem error={gates.error} onRetry={() => void gates.refetch()} />;
  const { items } = gates.data;
  const chosen = items.find(({ gate_id }) => gate_id === search['gate']) ?? items[0];
  if (chosen === undefined) return <FirstStep />;
  return <Steps gateId={chosen.gate_id} gates={items} secrets={{ key, setKey, passport, setPassport }} />;
}

const useGates = () =>
  useQuery({
    queryKey: ['gates', 'first-request'],
    queryFn: () => api.gates.list({ limit: gatesOffered }),
    refetchInterval: pollMs(),
  });

function FirstStep(): ReactNode {
  return (
    <ol className="path">
      <Step title="A gate from a template" state="now">
        <MakeGate />
      </Step>
      <Step title="A key for your service" state="later" />
      <Step title="Your code asks the gate" state="later" />
      <Step title="The first record" state="later" />
    </ol>
  );
}

function Steps({
  gateId,
  gates,
  secrets,
}: {
  readonly gateId: string;
  readonly gates: Gates;
  readonly secrets: Secrets;
}): ReactNode {
  const gate = useQuery({ queryKey: ['gates', 'one', gateId], queryFn: () => api.gates.get(gateId) });
  const record = useFirstRecord(gateId);
  if (gate.isPending) return <Waiting what="the gate" />;
  if (gate.isError) return <Problem error={gate.error} onRetry={() => void gate.refetch()} />;
  return (
    <ol className="path">
      <Step title="A gate from a template" state="done">
        <ChosenGate gate={gate.data} gates={gates} />
      </Step>
      <KeyStep secrets={secrets} />
      <Step title="Your code asks the gate" state={record === null ? 'now' : 'done'}>
        <Code gate={gate.data} secrets={secrets} />
      </Step>
      <Step title="The first record" state={record === null ? 'now' : 'done'}>
        <Outcome record={record} />
      </Step>
    </ol>
  );
}

/** The newest record of the gate that is no test; null: none yet. */
function useFirstRecord(gateId: string): Attestation | null {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['attestations', 'first-request', gateId],
    queryFn: () => api.attestations.list({ gate_id: gateId, limit: recordsLookedAt }),
    enabled: may('attestations:read'),
    refetchInterval: pollMs(2_000),
  });
  return query.data?.attestations.find(({ test }) => !test) ?? null;
}

function Outcome({ record }: { readonly record: Attestation | null }): ReactNode {
  if (record === null) {
    return (
      <p role="status">
        <span className="dot polling" aria-hidden="true" /> Waiting for the first request. It appears here by
        itself.
      </p>
    );
  }
  return (
    <div className="stack tight" role="status">
      <div className="row">
        <Badge value={record.decision} />
        {record.reason === null ? null : <span>{words(record.reason)}</span>}
        <Ago at={record.timestamp} />
        <Link to={`/attestations/${record.id}`}>Open the record</Link>
      </div>
      <p className="soft">
        {record.decision === 'PERMIT'
          ? 'Your service is guarded: every request from now on is decided and leaves such a record.'
          : 'The gate decided, and left a record. The reason says what the request lacks; ask again.'}
      </p>
    </div>
  );
}

const dismissedKey = (accountId: string, mode: string) => `agent-trust.first-request ${accountId} ${mode}`;

/** On the overview of an account that has decided nothing yet. It stays to the end once it was begun. */
export function FirstRequestOffer(): ReactNode {
  const { session, mode, may } = useSession();
  const place = dismissedKey(session.account.account_id, mode);
  const [isDismissed, setDismissed] = useState(() => localStorage.getItem(place) !== null);
  const [wasShown, setShown] = useState(false);
  const gates = useQuery({
    queryKey: ['gates', 'first-request'],
    queryFn: () => api.gates.list({ limit: gatesOffered }),
    enabled: may('gates:create') && !isDismissed,
  });
  const isNew = gates.data?.items.every(({ request_count }) => request_count === 0) ?? false;
  if (isNew && !wasShown) setShown(true);
  if (isDismissed || !(isNew || wasShown)) return null;
  const dismiss = () => {
    localStorage.setItem(place, '1');
    setDismissed(true);
  };
  return (
    <Card
      title="Your first guarded request"
      actions={
        <span className="row">
          <Link to="/first-request" className="button small">
            On a page of its own
          </Link>
          <button type="button" className="button small" onClick={dismiss}>
            Dismiss
          </button>
        </span>
      }
    >
      <FirstRequestPath />
    </Card>
  );
}
