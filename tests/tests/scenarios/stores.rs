//! The stores that every scenario runs on. One whose server is not there is `None`.

use tests::Lab;

#[expect(clippy::unnecessary_wraps, reason = "others may not be there")]
pub(crate) fn sqlite() -> Option<Lab> {
    Some(Lab::sqlite())
}
