import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress, useGo, useId } from '../api/address.ts';
import { api, type WalletDetail } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { Id } from '../ui/copy.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Form } from '../ui/form.tsx';
import { count } from '../ui/format.ts';
import { JsonView } from '../ui/json-view.tsx';
import { WalletName } from '../ui/names.tsx';
import { Card, Facts, PageHead, Problem, Tabs, Waiting } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';
import { limitsInWords, WalletGauges } from '../ui/wallet-limits.tsx';
import { WalletForm } from './wallet-form.tsx';
import { WalletStatement } from './wallet-statement.tsx';
import { WalletTree } from './wallet-tree.tsx';

export default function WalletPage(): ReactNode {
  const id = useId();
  const { search } = useAddress();
  const tab = search['tab'] ?? '';
  const query = useQuery({
    queryKey: ['wallets', 'one', id],
    queryFn: () => api.wallets.get(id),
    refetchInterval: pollMs(),
  });
  if (query.isPending) return <Waiting what="the wallet" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const wallet = query.data;
  return (
    <>
      <PageHead
        title={wallet.name}
        above={{ to: '/wallets', label: 'Wallets' }}
        actions={<Actions wallet={wallet} />}
      >
        <span className="row">
          <Badge value={wallet.status} />
          <Id id={wallet.wallet_id} what="wallet id" />
        </span>
      </PageHead>
      <Tabs
        label="Parts of this wallet"
        tabs={[
          { name: '', label: 'Wallet', isCurrent: tab === '' },
          { name: 'statement', label: 'Statement', isCurrent: tab === 'statement' },
          { name: 'json', label: 'JSON', isCurrent: tab === 'json' },
        ]}
      />
      {tab === 'statement' ? (
        <WalletStatement id={wallet.wallet_id} />
      ) : tab === 'json' ? (
        <JsonView value={wallet} />
      ) : (
        <Parts wallet={wallet} />
      )}
    </>
  );
}

function Parts({ wallet }: { readonly wallet: WalletDetail }): ReactNode {
  const above = wallet.path.slice(0, -1);
  const { may } = useSession();
  return (
    <div className="columns">
      <Card title="What is left">
        <WalletGauges usage={wallet.usage} />
      </Card>
      <Card title="The wallet">
        <Facts
          items={[
            [
              'Below',
              above.length === 0 ? (
                'nothing: it is a root'
              ) : (
                <span key="above" className="row">
                  {above.map((id) => (
                    <WalletName key={id} id={id} />
                  ))}
                </span>
              ),
            ],
            ['Limits', limitsInWords(wallet.limits)],
            ['Share', wallet.share === 'reserved' ? 'reserved in the wallet above' : 'from the common pot'],
            ['Alert', `at ${Math.round(wallet.alert_at * 10_000) / 100} % of a limit of money`],
            ['Passports', count(wallet.passports)],
            ['Created', <Time key="created" at={wallet.created_at} />],
          ]}
        />
      </Card>
      <Card
        title={`Wallets below it: ${count(wallet.children_total)}`}
        actions={
          may('wallets:manage') ? (
            <Link className="button small" to="/wallets" search={{ new: '1', below: wallet.wallet_id }}>
              Create one here
            </Link>
          ) : null
        }
      >
        <WalletTree
          parent={wallet.wallet_id}
          empty={<p className="soft">None. Passports in this wallet draw on it directly.</p>}
        />
      </Card>
    </div>
  );
}

type Asked = 'edit' | 'freeze' | 'delete' | null;

function Actions({ wallet }: { readonly wallet: WalletDetail }): ReactNode {
  const { may } = useSession();
  const [asked, setAsked] = useState<Asked>(null);
  const close = () => setAsked(null);
  if (!may('wallets:manage')) return null;
  const isEmpty = wallet.passports === 0 && wallet.children_total === 0;
  return (
    <>
      <button type="button" className="button" onClick={() => setAsked('edit')}>
        Change or move
      </button>
      <button
        type="button"
        className={`button ${wallet.status === 'active' ? 'danger' : ''}`}
        onClick={() => setAsked('freeze')}
      >
        {wallet.status === 'active' ? 'Freeze' : 'Unfreeze'}
      </button>
      {isEmpty ? (
        <button type="button" className="button danger" onClick={() => setAsked('delete')}>
          Delete
        </button>
      ) : null}
      {asked === 'edit' ? <WalletForm wallet={wallet} onClose={close} onDone={close} /> : null}
      {asked === 'freeze' ? <FreezeDialog wallet={wallet} onClose={close} /> : null}
      {asked === 'delete' ? <DeleteDialog wallet={wallet} onClose={close} /> : null}
    </>
  );
}

function FreezeDialog({ wallet, onClose }: { readonly wallet: WalletDetail; onClose(): void }): ReactNode {
  const isActive = wallet.status === 'active';
  const change = useAction({
    run: () => (isActive ? api.wallets.freeze(wallet.wallet_id) : api.wallets.unfreeze(wallet.wallet_id)),
    changes: ['wallets'],
    done: isActive ? 'Frozen. Gates block its passports.' : 'Unfrozen. Its passports may spend again.',
    onDone: onClose,
  });
  return (
    <Dialog title={`${isActive ? 'Freeze' : 'Unfreeze'} ${wallet.name}?`} onClose={onClose}>
      <p>
        {isActive
          ? 'Every gate blocks all passports in it and in the wallets below it, until it is unfrozen.'
          : 'Passports in it and below it may spend again, unless a wallet between is frozen by itself.'}
      </p>
      <Form error={change.error} onSubmit={() => change.mutate(undefined)}>
        {change.error === null ? null : <Problem error={change.error} />}
        <DialogActions
          onCancel={onClose}
          submit={isActive ? 'Freeze it' : 'Unfreeze it'}
          isBusy={change.isPending}
          isDanger={isActive}
        />
      </Form>
    </Dialog>
  );
}

function DeleteDialog({ wallet, onClose }: { readonly wallet: WalletDetail; onClose(): void }): ReactNode {
  const go = useGo();
  const remove = useAction({
    run: () => api.wallets.delete(wallet.wallet_id),
    changes: ['names'],
    done: 'Deleted.',
    onDone: () => go('/wallets'),
  });
  return (
    <Dialog title={`Delete ${wallet.name}?`} onClose={onClose}>
      <p>Nothing is in it. Its records stay, and statements of the wallets above it count them.</p>
      <Form error={remove.error} onSubmit={() => remove.mutate(undefined)}>
        {remove.error === null ? null : <Problem error={remove.error} />}
        <DialogActions onCancel={onClose} submit="Delete it" isBusy={remove.isPending} isDanger />
      </Form>
    </Dialog>
  );
}
