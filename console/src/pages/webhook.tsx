import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress, useGo, useId } from '../api/address.ts';
import { api, type Delivery, type NewWebhook, type Webhook } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { pollMs } from '../api/live.ts';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { Id } from '../ui/copy.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { words } from '../ui/format.ts';
import { JsonView } from '../ui/json-view.tsx';
import { Card, Empty, Facts, PageHead, Problem, Waiting } from '../ui/page.tsx';
import { Ago, Time } from '../ui/time.tsx';
import {
  EventChoice,
  FormatChoice,
  SecretDialog,
  type WebhookEvent,
  type WebhookFormat,
} from './webhooks.tsx';

const disabledWords: Readonly<Record<string, string>> = {
  owner: 'Somebody switched it off.',
  gone: 'It answered 410: it wants no more deliveries.',
  failing: 'It took no delivery for three days.',
  unread: 'No program fetched its deliveries for an hour.',
};

export default function WebhookPage(): ReactNode {
  const id = useId();
  const { search, set } = useAddress();
  const query = useQuery({
    queryKey: ['webhooks', 'one', id],
    queryFn: () => api.webhooks.get(id),
    refetchInterval: pollMs(),
  });
  if (query.isPending) return <Waiting what="the endpoint" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const webhook = query.data;
  return (
    <>
      <PageHead
        title={webhook.url ?? 'Fetched by a program'}
        above={{ to: '/webhooks', label: 'Webhooks' }}
        actions={<Actions webhook={webhook} />}
      >
        <span className="row">
          <Badge value={webhook.status} />
          <Id id={webhook.webhook_id} what="webhook id" />
        </span>
        {webhook.description === null ? null : <p>{webhook.description}</p>}
      </PageHead>
      {webhook.status === 'disabled' ? (
        <p className="notice warn">
          Nothing is sent. {disabledWords[webhook.disabled_reason ?? ''] ?? ''} Switch it on again when it
          works; then send again what it missed.
        </p>
      ) : webhook.failing_since === null ? null : (
        <p className="notice warn">
          No delivery has succeeded since <Time at={webhook.failing_since} />.
        </p>
      )}
      <Card title="Subscribed to">
        <p>{webhook.events.join(', ')}</p>
        {webhook.format === 'cloudevents' ? <p className="soft small">Sent as CloudEvents 1.0.</p> : null}
      </Card>
      <Deliveries
        id={id}
        status={search['status']}
        onStatus={(status) => set({ status })}
        opened={search['delivery']}
      />
    </>
  );
}

const statuses = ['pending', 'succeeded', 'failed'] as const;

function Deliveries({
  id,
  status,
  onStatus,
  opened,
}: {
  readonly id: string;
  readonly status: string | undefined;
  readonly opened: string | undefined;
  onStatus(status: string): void;
}): ReactNode {
  const { set } = useAddress();
  const wanted = statuses.find((each) => each === status);
  const source = useCountedList<Delivery>(['webhooks', 'deliveries', id, wanted], (page) =>
    api.webhooks.listDeliveries(id, { ...page, ...(wanted === undefined ? {} : { status: wanted }) }),
  );
  const shown = source.rows.find(({ delivery_id }) => delivery_id === opened);
  return (
    <div className="stack">
      <h2>Deliveries</h2>
      <div className="filters">
        <Select
          label="Status"
          value={wanted ?? ''}
          onChange={onStatus}
          options={[['', 'All'], ...statuses.map((each) => [each, each] as const)]}
        />
      </div>
      {shown === undefined ? null : (
        <DeliveryDialog delivery={shown} onClose={() => set({ delivery: undefined })} />
      )}
      <DataTable
        label="Deliveries"
        source={source}
        empty={
          <Empty title="No deliveries">
            {wanted === undefined
              ? 'Send a test, or wait for something to happen.'
              : 'None with this status.'}
          </Empty>
        }
        columns={[
          {
            head: 'Event',
            width: 'minmax(0, 2fr)',
            cell: (row) => (
              <div className="two-lines">
                <Link to="." search={(before: object) => ({ ...before, delivery: row.delivery_id })}>
                  {row.event}
                </Link>
                <span>{row.event_id}</span>
              </div>
            ),
          },
          { head: 'Status', width: '110px', cell: (row) => <Badge value={row.status} /> },
          {
            head: 'Answer',
            width: 'minmax(0, 1fr)',
            isWideOnly: true,
            cell: ({ attempts: [newest] }) => newest?.status_code ?? newest?.error ?? '',
          },
          {
            head: 'Attempts',
            width: '84px',
            isNumber: true,
            isWideOnly: true,
            cell: (row) => row.attempt_count,
          },
          { head: 'When', width: '104px', cell: (row) => <Ago at={row.created_at} /> },
        ]}
      />
    </div>
  );
}

function DeliveryDialog({ delivery, onClose }: { readonly delivery: Delivery; onClose(): void }): ReactNode {
  const resend = useAction({
    run: () => api.webhooks.resendDelivery(delivery.webhook_id, delivery.delivery_id),
    changes: ['webhooks'],
    done: 'It is sent again.',
  });
  return (
    <Dialog title={delivery.event} onClose={onClose} className="wide">
      <Facts
        items={[
          ['Status', <Badge key="status" value={delivery.status} />],
          ['Delivery', <Id key="id" id={delivery.delivery_id} what="delivery id" />],
          ['Event', <Id key="event" id={delivery.event_id} what="event id" />],
          ['Created', <Time key="created" at={delivery.created_at} />],
          ['Next attempt', <Time key="next" at={delivery.next_attempt_at} otherwise="none is planned" />],
        ]}
      />
      <h3>Attempts</h3>
      {delivery.attempts.length === 0 ? <p className="soft">None yet.</p> : null}
      <ol className="steps">
        {delivery.attempts.map((attempt) => {
          const isGood = attempt.status_code !== null && attempt.status_code < 300;
          return (
            <li key={attempt.attempt} className={isGood ? 'good' : 'bad'}>
              <span className="mark">{attempt.attempt}</span>
              <div className="stack tight">
                <span>
                  {attempt.status_code === null
                    ? words(attempt.error ?? 'no answer')
                    : `HTTP ${attempt.status_code}`}
                  {` after ${attempt.latency_ms} ms, `}
                  <Time at={attempt.started_at} />
                </span>
                {attempt.response ? (
                  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable
                  <pre tabIndex={0}>{attempt.response}</pre>
                ) : null}
              </div>
            </li>
          );
        })}
      </ol>
      <h3>Body</h3>
      <JsonView value={delivery.payload} what="body" />
      {resend.error === null ? null : <Problem error={resend.error} />}
      <div className="actions">
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
        <button
          type="button"
          className="button primary"
          disabled={resend.isPending}
          onClick={() => resend.mutate(undefined)}
        >
          Send again
        </button>
      </div>
    </Dialog>
  );
}

function Actions({ webhook }: { readonly webhook: Webhook }): ReactNode {
  const [open, setOpen] = useState<'edit' | 'roll' | 'recover' | 'delete' | null>(null);
  const close = () => setOpen(null);
  const id = webhook.webhook_id;
  const changes = ['webhooks'];
  const test = useAction({ run: () => api.webhooks.test(id), changes, done: 'A test is on its way.' });
  const toggle = useAction({
    run: () => api.webhooks.update(id, { status: webhook.status === 'enabled' ? 'disabled' : 'enabled' }),
    changes,
    done: webhook.status === 'enabled' ? 'Switched off.' : 'Switched on.',
  });
  const error = test.error ?? toggle.error;
  return (
    <>
      <button
        type="button"
        className="button primary"
        disabled={test.isPending}
        onClick={() => test.mutate(undefined)}
      >
        Send a test
      </button>
      <button type="button" className="button" onClick={() => setOpen('edit')}>
        Change
      </button>
      <button
        type="button"
        className="button"
        disabled={toggle.isPending}
        onClick={() => toggle.mutate(undefined)}
      >
        {webhook.status === 'enabled' ? 'Switch off' : 'Switch on'}
      </button>
      <button type="button" className="button" onClick={() => setOpen('recover')}>
        Send failures again
      </button>
      <button type="button" className="button" onClick={() => setOpen('roll')}>
        Roll secret
      </button>
      <button type="button" className="button danger" onClick={() => setOpen('delete')}>
        Delete
      </button>
      {error === null ? null : <Problem error={error} />}
      {open === 'edit' ? <EditDialog webhook={webhook} onClose={close} /> : null}
      {open === 'roll' ? <RollDialog id={id} onClose={close} /> : null}
      {open === 'recover' ? <RecoverDialog id={id} onClose={close} /> : null}
      {open === 'delete' ? <DeleteDialog id={id} onClose={close} /> : null}
    </>
  );
}

function EditDialog({ webhook, onClose }: { readonly webhook: Webhook; onClose(): void }): ReactNode {
  const [url, setUrl] = useState(webhook.url ?? '');
  const [description, setDescription] = useState(webhook.description ?? '');
  const [events, setEvents] = useState<readonly WebhookEvent[]>(webhook.events);
  const [format, setFormat] = useState<string>(webhook.format);
  const save = useAction({
    run: () =>
      api.webhooks.update(webhook.webhook_id, {
        ...(webhook.url === null ? {} : { url: url.trim() }),
        ...(description.trim() === '' ? {} : { description: description.trim() }),
        events,
        format: format as WebhookFormat,
      }),
    changes: ['webhooks'],
    done: 'Saved.',
    onDone: onClose,
  });
  return (
    <Dialog title="Change the endpoint" onClose={onClose}>
      <Form error={save.error} onSubmit={() => save.mutate(undefined)}>
        {webhook.url === null ? null : (
          <TextField label="Address" param="url" type="url" required value={url} onChange={setUrl} />
        )}
        <TextField label="Description" param="description" value={description} onChange={setDescription} />
        <EventChoice chosen={events} onChange={setEvents} />
        <FormatChoice chosen={format} onChange={setFormat} />
        {save.error === null ? null : <Problem error={save.error} />}
        <DialogActions onCancel={onClose} submit="Save" isBusy={save.isPending || events.length === 0} />
      </Form>
    </Dialog>
  );
}

function RollDialog({ id, onClose }: { readonly id: string; onClose(): void }): ReactNode {
  const [overlap, setOverlap] = useState('86400');
  const roll = useAction({
    run: (): Promise<NewWebhook> => api.webhooks.rollSecret(id, { overlap_s: Number(overlap) }),
    changes: ['webhooks'],
  });
  if (roll.data !== undefined) return <SecretDialog made={roll.data} onClose={onClose} />;
  return (
    <Dialog title="Roll the secret" onClose={onClose}>
      <Form error={roll.error} onSubmit={() => roll.mutate(undefined)}>
        <Select
          label="The old secret also signs"
          param="overlap_s"
          value={overlap}
          onChange={setOverlap}
          options={[
            ['0', 'No longer'],
            ['3600', 'For an hour'],
            ['86400', 'For a day'],
            ['604800', 'For a week'],
          ]}
        />
        {roll.error === null ? null : <Problem error={roll.error} />}
        <DialogActions onCancel={onClose} submit="Roll" isBusy={roll.isPending} />
      </Form>
    </Dialog>
  );
}

function RecoverDialog({ id, onClose }: { readonly id: string; onClose(): void }): ReactNode {
  const [hours, setHours] = useState('24');
  const recover = useAction({
    run: () =>
      api.webhooks.recover(id, { since: new Date(Date.now() - Number(hours) * 3_600_000).toISOString() }),
    changes: ['webhooks'],
  });
  return (
    <Dialog title="Send failures again" onClose={onClose}>
      <Form error={recover.error} onSubmit={() => recover.mutate(undefined)}>
        <Select
          label="What failed in the last"
          param="since"
          value={hours}
          onChange={setHours}
          options={[
            ['1', 'hour'],
            ['24', '24 hours'],
            ['168', '7 days'],
          ]}
        />
        {recover.data === undefined ? null : (
          <p className="notice good" role="status">
            {recover.data.requeued} deliveries are sent again.
            {recover.data.has_more ? ' There are more: send again.' : ''}
          </p>
        )}
        {recover.error === null ? null : <Problem error={recover.error} />}
        <DialogActions onCancel={onClose} submit="Send again" isBusy={recover.isPending} />
      </Form>
    </Dialog>
  );
}

function DeleteDialog({ id, onClose }: { readonly id: string; onClose(): void }): ReactNode {
  const go = useGo();
  const remove = useAction({
    run: () => api.webhooks.delete(id),
    changes: ['webhooks'],
    done: 'Endpoint deleted.',
    onDone: () => go('/webhooks'),
  });
  return (
    <Dialog title="Delete this endpoint?" onClose={onClose}>
      <p>Nothing is sent to it any more, and the log of its deliveries is gone.</p>
      <Form error={remove.error} onSubmit={() => remove.mutate(undefined)}>
        {remove.error === null ? null : <Problem error={remove.error} />}
        <DialogActions onCancel={onClose} submit="Delete" isBusy={remove.isPending} isDanger />
      </Form>
    </Dialog>
  );
}
