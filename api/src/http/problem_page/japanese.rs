//! The pages' texts in Japanese.

use super::{Frame, Text};
use crate::http::problem::{Code, Retry};

pub(super) fn frame(retry: Retry) -> Frame {
    Frame {
        retry: "再試行してよいか",
        advice: match retry {
            Retry::SameKey => {
                "はい。`Retry-After` の秒数が過ぎてから、同じリクエストを(`Idempotency-Key` が必要なものは同じキーで)もう一度送ってください。"
            }
            Retry::Corrected => "修正すれば送れます。キーは消費されていないので、修正したリクエストにそのまま使えます。",
            Retry::NewKey => "このキーでは送れません。キーは別のリクエストのものです。本当に新しいリクエストには新しいキーが必要です。",
            Retry::Never => "いいえ。この応答は最終です。同じリクエストには同じ応答が返ります。",
            Retry::Ask => {
                "新しいキーを作らないでください。予約が成立している可能性があり、新しいキーでは二重に予約されるおそれがあります。このキーで照会するか、運用者に問い合わせてください。"
            }
        },
        happened: "何が起きたか",
        to_do: "どうすればよいか",
        example: "確かめる",
        all_docs: "API ドキュメント",
        other_language: "English",
    }
}

pub(super) fn text(code: Code) -> Text {
    match code {
        Code::KeyMissing => Text {
            happened: "再試行で二重に予約されないよう、`POST` と `PATCH` にはヘッダー `Idempotency-Key` が必要ですが、送られませんでした。処理は何も行われていません。",
            to_do: "新しいリクエストごとに無作為なキー(UUID など)を一つ作って保存し、そのリクエストとすべての再試行に付けてください。",
        },
        Code::KeyMalformed => Text {
            happened: "有効なキーがちょうど一つではありません。ヘッダーの重複、リスト、閉じていない引用符、空、255 文字超過、表示可能な ASCII 以外の文字などが原因です。処理は何も行われていません。",
            to_do: "二重引用符で囲んだ文字列を一行だけ送ってください: `Idempotency-Key: \"8e03978e-40d5-43e8-bc93-6894a57f9324\"`。引用符の中では、引用符は `\\\"`、バックスラッシュは `\\\\` と書きます。",
        },
        Code::RequestInvalid => Text {
            happened: "本文、クエリパラメーターまたはヘッダーが API の記述に合っていません。`errors` に誤りの場所が JSON Pointer で示されます。処理は何も行われていません。",
            to_do: "`errors` の誤りをすべて直してください。JSON は厳密に読まれます。メンバーの重複や未知のメンバーは不可、整数は小数点・指数・引用符なしで書きます。",
        },
        Code::Unauthenticated => Text {
            happened: "トークンがないか、未知のものか、失効しています。キーは参照されていません。",
            to_do: "有効なトークンを `Authorization: Bearer TOKEN` で送ってください。",
        },
        Code::Forbidden => Text {
            happened: "トークンなしで動作中のサービスが、ループバック以外の名前で呼ばれました。ウェブページが独自の名前を使ってサービスに到達することを防ぐためです。",
            to_do: "`127.0.0.1` または `localhost` で呼び出してください。トークンを作れば、どの名前でも呼び出せます。",
        },
        Code::NotFound => Text {
            happened: "このアドレスには何もないか、別のアカウントのものです。キーが解放された予約も存在しなくなります。",
            to_do: "アドレスを確認してください。再試行の途中であれば、元のリクエストを同じキーで送り直してください。",
        },
        Code::MethodNotAllowed => Text {
            happened: "アドレスは存在しますが、このメソッドには対応していません。",
            to_do: "ヘッダー `Allow` にあるメソッドを使ってください。",
        },
        Code::RequestTimeout => Text {
            happened: "リクエスト全体が時間内に届きませんでした。処理は何も行われていません。",
            to_do: "もう一度送ってください。",
        },
        Code::TooManyRequests => Text {
            happened: "アカウントが許可された数を超えて新しいキーを作ったか、サービスが同時に処理できる数を超えるリクエストを受けています。処理は何も行われておらず、キーにも影響はありません。再送への応答は数えられません。",
            to_do: "`Retry-After` の秒数だけ待ち、同じキーで送り直してください。",
        },
        Code::KeyInProgress => Text {
            happened: "このキーのリクエストは処理中です。呼び出し元の接続が切れても処理は続きます。",
            to_do: "`Retry-After` の秒数だけ待って送り直すと、唯一の応答が得られます。`Prefer: wait=10` を付けると、サービス側で完了を待ちます。",
        },
        Code::ReservationBusy => Text {
            happened: "予約がまだ作成中か、別の変更がまだ確定していません。今回の変更は始まっていません。",
            to_do: "`Retry-After` の秒数だけ待ち、予約を読み直してから、変更を送り直してください。",
        },
        Code::OutcomeUnknown => Text {
            happened: "予約システムへの送信は行われましたが、予約が成立したかどうかをまだ判断できません。二重送信はせず、判明するまで待っています。",
            to_do: "このキーを保管し、新しいキーに替えないでください。応答に `Retry-After` があれば、サービスが再び確認するので、後で同じキーで送ってください。なければ運用者による解決が必要です。",
        },
        Code::VersionStale => Text {
            happened: "予約は読み取り後に変更されています。`If-Match` が現在の `ETag` と一致しません。何も変更されていません。",
            to_do: "予約を読み直して内容を確認し、新しい `ETag` を付けて変更を送ってください。タグが `W/` で始まる場合は途中のプロキシが弱いタグに変えています。`W/` を取り除いて送ってください。",
        },
        Code::IfMatchMissing => Text {
            happened: "他者の変更を上書きしないよう、変更にはどの版を変えるのかの指定が必要ですが、`If-Match` が送られませんでした。",
            to_do: "予約を読み、その `ETag` を `If-Match` に付けて送ってください。",
        },
        Code::BodyTooLarge => Text {
            happened: "本文がこのサービスの上限を超えています。処理は何も行われていません。",
            to_do: "本文を小さくしてください。`note` は 1000 文字までです。",
        },
        Code::MediaTypeUnsupported => Text {
            happened: "本文が UTF-8 の JSON と宣言されていないか、圧縮されています。処理は何も行われていません。",
            to_do: "`Content-Type: application/json` を付け、`Content-Encoding` は付けずに送ってください。",
        },
        Code::KeyReused => Text {
            happened: "このキーは以前、別の内容のリクエスト、または別の予約に使われました。異なるメンバーが `mismatch` に示されます。異なるのが予約だけの場合は空です。処理は何も行われていません。",
            to_do: "再試行なら最初とまったく同じリクエストを送ってください。新しいリクエストには新しいキーを作ってください。",
        },
        Code::BookingRejected => Text {
            happened: "満席などの理由で予約システムが拒否したか、予約が変更できない状態にあります。`POST` と `PATCH` に対する予約システムの拒否は、キーとともに保存されます。",
            to_do: "再試行しても結果は変わりません。改めて判断してください。別のリクエストには別のキーが必要です。",
        },
        Code::Internal => Text {
            happened: "サービスの内部で失敗しました。予約が成立したかどうかはキーに記録されています。",
            to_do: "同じキーで送り直してください。続く場合は運用者に知らせてください。",
        },
        Code::BookingSystemMisconfigured => Text {
            happened: "予約システムがこのサービス自体を受け付けていません(401、403、404 または 405)。予約は行われておらず、キーは解放されました。",
            to_do: "運用者による設定の修正が必要です。その後、同じキーで送り直してください。",
        },
        Code::BookingSystemUnavailable => Text {
            happened: "予約システムへの接続が成立しませんでした。予約は行われておらず、キーは解放されました。",
            to_do: "`Retry-After` の秒数だけ待ち、同じキーで送り直してください。",
        },
        Code::BookingSystemBusy => Text {
            happened: "予約システムが今はこれ以上受け付けていません。予約は行われておらず、キーは解放されました。",
            to_do: "予約システムが示した `Retry-After` の秒数だけ待ち、同じキーで送り直してください。",
        },
        Code::OutcomePending => Text {
            happened: "予約システムに送信しましたが、時間内に結果が分かりませんでした。予約が成立している可能性があります。サービスは確認を続けます。",
            to_do: "`Retry-After` の秒数だけ待ち、同じキーで送り直してください。結果が分かり次第、唯一の応答が得られます。新しいキーは作らないでください。",
        },
        Code::StorageUnavailable => Text {
            happened: "データベースに接続できません。その間、予約システムには何も送信されません。",
            to_do: "`Retry-After` の秒数だけ待ち、同じキーで送り直してください。",
        },
    }
}
