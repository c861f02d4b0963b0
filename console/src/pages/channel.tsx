import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { useGo, useId } from '../api/address.ts';
import { api, type Channel, tagOf } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { Id } from '../ui/copy.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Check, Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { words } from '../ui/format.ts';
import { GateName } from '../ui/names.tsx';
import { Card, Facts, PageHead, Problem, Waiting } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';
import { delays, delayWords, kindWords, TargetField } from './channels.tsx';

const disabledWords: Readonly<Record<string, string>> = {
  owner: 'It was switched off here.',
  gone: 'The other side says that this address is no more.',
  failing: 'It took no message for three days.',
};

export default function ChannelPage(): ReactNode {
  const id = useId();
  const query = useQuery({
    queryKey: ['channels', 'one', id],
    queryFn: () => api.channels.get(id),
    refetchInterval: pollMs(),
  });
  if (query.isPending) return <Waiting what="the channel" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const channel = query.data;
  return (
    <>
      <PageHead
        title={channel.name}
        above={{ to: '/channels', label: 'Channels' }}
        actions={<Actions channel={channel} />}
      >
        <span className="row">
          <Badge value={channel.status} />
          <Id id={channel.channel_id} what="channel id" />
        </span>
      </PageHead>
      <Health channel={channel} />
      <Card title="What it does">
        <Facts
          items={[
            ['Kind', kindWords[channel.kind]],
            ['Target', <code key="target">{channel.target}</code>],
            [
              'Approvals of',
              channel.gate_id === null ? (
                'all gates without channels of their own'
              ) : (
                <GateName key="gate" id={channel.gate_id} />
              ),
            ],
            ['Told', delayWords(channel.after_s)],
            ['Of the end', channel.events.includes('approval.resolved') ? 'yes' : 'no'],
            ['Last sent', <Time key="sent" at={channel.last_sent_at} otherwise="never" />],
          ]}
        />
      </Card>
    </>
  );
}

function Health({ channel }: { readonly channel: Channel }): ReactNode {
  const { status, disabled_reason, failing_since, failures, last_error: error } = channel;
  if (status === 'enabled' && failing_since === null) return null;
  return (
    <div className="notice warn stack tight">
      {status === 'disabled' ? (
        <p>Nothing is sent. {disabledWords[disabled_reason ?? ''] ?? ''}</p>
      ) : (
        <p>
          {failures === 1 ? 'One attempt has failed' : `${failures} attempts have failed`} since{' '}
          <Time at={failing_since} />. It is tried again.
        </p>
      )}
      {error === null ? null : (
        <p>
          Last failure: {words(error.code)}. <code>{error.detail}</code>
        </p>
      )}
    </div>
  );
}

function Actions({ channel }: { readonly channel: Channel }): ReactNode {
  const [open, setOpen] = useState<'edit' | 'delete' | null>(null);
  const close = () => setOpen(null);
  const id = channel.channel_id;
  const isOn = channel.status === 'enabled';
  const test = useAction({ run: () => api.channels.test(id) });
  const toggle = useAction({
    run: () => api.channels.update(id, { status: isOn ? 'disabled' : 'enabled' }),
    changes: ['channels'],
    done: isOn ? 'Switched off.' : 'Switched on.',
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
        {test.isPending ? 'Sending a test' : 'Send a test'}
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
        {isOn ? 'Switch off' : 'Switch on'}
      </button>
      <button type="button" className="button danger" onClick={() => setOpen('delete')}>
        Delete
      </button>
      {error === null ? null : <Problem error={error} />}
      {test.data === undefined ? null : (
        <p className={test.data.sent ? 'notice' : 'notice warn'} role="status">
          {test.data.error === null ? (
            `The test was sent, in ${test.data.latency_ms} ms.`
          ) : (
            <>
              The test was not sent: {words(test.data.error.code)}. <code>{test.data.error.detail}</code>
            </>
          )}
        </p>
      )}
      {open === 'edit' ? <EditDialog channel={channel} onClose={close} /> : null}
      {open === 'delete' ? <DeleteDialog id={id} onClose={close} /> : null}
    </>
  );
}

function EditDialog({ channel, onClose }: { readonly channel: Channel; onClose(): void }): ReactNode {
  const [name, setName] = useState(channel.name);
  const [target, setTarget] = useState(channel.target);
  const [after, setAfter] = useState(String(channel.after_s));
  const [tellsEnd, setTellsEnd] = useState(channel.events.includes('approval.resolved'));
  const tag = tagOf(channel);
  const own = delays.some(([value]) => value === String(channel.after_s))
    ? []
    : [[String(channel.after_s), delayWords(channel.after_s)] as const];
  const save = useAction({
    run: () =>
      api.channels.update(
        channel.channel_id,
        {
          name: name.trim(),
          target: target.trim(),
          after_s: Number(after),
          events: tellsEnd ? ['approval.requested', 'approval.resolved'] : ['approval.requested'],
        },
        tag === undefined ? {} : { ifMatch: tag },
      ),
    changes: ['channels'],
    done: 'Saved.',
    onDone: onClose,
  });
  return (
    <Dialog title="Change the channel" onClose={onClose}>
      <Form error={save.error} onSubmit={() => save.mutate(undefined)}>
        <TextField label="Name" param="name" required value={name} onChange={setName} />
        <TargetField kind={channel.kind} value={target} onChange={setTarget} />
        <Select
          label="Told"
          param="after_s"
          value={after}
          onChange={setAfter}
          options={[...own, ...delays]}
        />
        <Check label="Also tell how it ended" checked={tellsEnd} onChange={setTellsEnd} />
        {save.error === null ? null : <Problem error={save.error} />}
        <DialogActions onCancel={onClose} submit="Save" isBusy={save.isPending} />
      </Form>
    </Dialog>
  );
}

function DeleteDialog({ id, onClose }: { readonly id: string; onClose(): void }): ReactNode {
  const go = useGo();
  const remove = useAction({
    run: () => api.channels.delete(id),
    changes: ['channels'],
    done: 'Deleted.',
    onDone: () => go('/channels'),
  });
  return (
    <Dialog title="Delete this channel?" onClose={onClose}>
      <Form error={remove.error} onSubmit={() => remove.mutate(undefined)}>
        <p>Nothing more is sent to it.</p>
        {remove.error === null ? null : <Problem error={remove.error} />}
        <DialogActions onCancel={onClose} submit="Delete" isBusy={remove.isPending} isDanger />
      </Form>
    </Dialog>
  );
}
