import type { ReactNode } from 'react';
import { useAddress, useGo } from '../api/address.ts';
import { useSession } from '../api/session.tsx';
import { useNameFilter } from '../ui/name-filter.tsx';
import { Empty, PageHead } from '../ui/page.tsx';
import { WalletForm } from './wallet-form.tsx';
import { WalletTree } from './wallet-tree.tsx';

export default function WalletsPage(): ReactNode {
  const { search, set } = useAddress();
  const { may } = useSession();
  const go = useGo();
  const named = useNameFilter('A part of it');
  const create = may('wallets:manage') ? (
    <button type="button" className="button primary" onClick={() => set({ new: '1' })}>
      Create a wallet
    </button>
  ) : null;
  return (
    <>
      <PageHead title="Wallets" actions={create}>
        Budgets of many agents: each PERMIT takes from the agent's wallet and from all above it.
      </PageHead>
      {named.field}
      <WalletTree
        parent=""
        name={named.query.name}
        empty={named.orNone(
          <Empty title="No wallets yet" action={create}>
            A wallet binds what a company, a team or a run of agents may spend, wherever they spend it.
          </Empty>,
        )}
      />
      {search['new'] === '1' ? (
        <WalletForm
          wallet={null}
          parent={search['below'] ?? ''}
          onClose={() => set({ new: undefined, below: undefined })}
          onDone={({ wallet_id }) => go(`/wallets/${wallet_id}`)}
        />
      ) : null}
    </>
  );
}
