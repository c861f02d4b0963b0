import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { type ReactNode, useId, useState } from 'react';
import { api, ask, type Wallet, type WalletPage } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { Badge } from '../ui/badge.tsx';
import { count } from '../ui/format.ts';
import { Empty, Problem, Waiting } from '../ui/page.tsx';
import { RowLink } from '../ui/row-link.tsx';
import { limitsInWords, WalletGauges } from '../ui/wallet-limits.tsx';

const pageSize = 50;

/**
 * Wallets below `parent`, page by page; empty: the roots. Each is opened by itself, and what is in it is
 * loaded then, so 10,000 wallets cost what the reader looks at. `name`: those with it, wherever they are.
 */
export function WalletTree({
  parent,
  name,
  empty,
}: {
  readonly parent: string;
  readonly name?: string | undefined;
  readonly empty: ReactNode;
}): ReactNode {
  const filter = name === undefined ? { parent_wallet_id: parent } : { name };
  const query = useInfiniteQuery({
    queryKey: ['wallets', 'tree', parent, name],
    queryFn: ({ pageParam }) => listOf(filter, pageParam),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > 1 ? false : pollMs()()),
  });
  if (query.isPending) return <Waiting what="wallets" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const wallets = query.data.pages.flatMap(({ items }) => items);
  if (wallets.length === 0) return empty;
  const left = (query.data.pages[0]?.total ?? 0) - wallets.length;
  return (
    <>
      <ul className="wallets" aria-label={name === undefined ? 'Wallets' : 'Wallets with this name'}>
        {wallets.map((wallet) => (
          <Branch key={wallet.wallet_id} wallet={wallet} />
        ))}
      </ul>
      {query.hasNextPage ? (
        <div>
          <button
            type="button"
            className="button small"
            disabled={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            {query.isFetchingNextPage ? 'Loading…' : `Show more of ${count(left)}`}
          </button>
        </div>
      ) : null}
    </>
  );
}

const listOf = (
  filter: { readonly parent_wallet_id: string } | { readonly name: string },
  cursor: string | null,
): Promise<WalletPage> => {
  // In the path, because an empty one asks for the roots, and empty parameters are left out.
  const named = new URLSearchParams(Object.entries(filter)).toString();
  const query = { limit: pageSize, ...(cursor === null ? {} : { cursor }) };
  return ask({ method: 'GET', path: `/v1/wallets?${named}`, query });
};

/** One wallet: what is left of it, and what is below it, once it is opened. */
function Branch({ wallet }: { readonly wallet: Wallet }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const inside = useId();
  return (
    <li>
      <div className="row branch">
        <button
          type="button"
          className="button small bare"
          aria-expanded={isOpen}
          aria-controls={isOpen ? inside : undefined}
          aria-label={`${isOpen ? 'Close' : 'Open'} ${wallet.name}`}
          onClick={() => setOpen(!isOpen)}
        >
          <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
        </button>
        <div className="two-lines">
          <RowLink to={`/wallets/${wallet.wallet_id}`} title={wallet.wallet_id}>
            {wallet.name}
          </RowLink>
          <span>{limitsInWords(wallet.limits)}</span>
        </div>
        <span className="row">
          {wallet.share === 'reserved' ? <span className="badge">reserved</span> : null}
          {wallet.status === 'frozen' ? <Badge value="frozen" /> : null}
        </span>
      </div>
      {isOpen ? (
        <div id={inside} className="stack inside">
          <Inside id={wallet.wallet_id} />
        </div>
      ) : null}
    </li>
  );
}

function Inside({ id }: { readonly id: string }): ReactNode {
  const query = useQuery({
    queryKey: ['wallets', 'one', id],
    queryFn: () => api.wallets.get(id),
    refetchInterval: pollMs(),
  });
  if (query.isPending) return <Waiting what="the wallet" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const { usage, children_total: below } = query.data;
  return (
    <>
      <WalletGauges usage={usage} />
      {below === 0 ? null : <WalletTree parent={id} empty={<NoneBelow />} />}
    </>
  );
}

const NoneBelow = (): ReactNode => <Empty title="None">It has no wallets below it any more.</Empty>;
