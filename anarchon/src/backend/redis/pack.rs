//! The requests as scripts read them: MessagePack, which every server unpacks by itself.
//!
//! Only what a request is made of: texts, whole numbers, truth values, one after the other; `false` stands for nothing.
//! Not as an array, which a script would have to grow. Texts are in the forms that the oldest servers know.

/// A request that is being written.
#[derive(Debug, Default)]
pub(super) struct Pack(Vec<u8>);

impl Pack {
    /// A request of no values yet.
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn text(mut self, text: impl AsRef<[u8]>) -> Self {
        let bytes = text.as_ref();
        match u16::try_from(bytes.len()) {
            Ok(length @ 0..32) => self.0.push(0xa0 | length.to_be_bytes()[1]),
            Ok(length) => {
                self.0.push(0xda);
                self.0.extend(length.to_be_bytes());
            }
            Err(_) => {
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                self.0.push(0xdb);
                self.0.extend(length.to_be_bytes());
            }
        }
        self.0.extend(bytes);
        self
    }

    pub(super) fn opt_text(self, text: Option<impl AsRef<[u8]>>) -> Self {
        match text {
            Some(text) => self.text(text),
            None => self.flag(false),
        }
    }

    pub(super) fn int(mut self, number: i64) -> Self {
        match u8::try_from(number) {
            Ok(small @ 0..128) => self.0.push(small),
            _ => {
                self.0.push(0xd3);
                self.0.extend(number.to_be_bytes());
            }
        }
        self
    }

    pub(super) fn opt_int(self, number: Option<i64>) -> Self {
        match number {
            Some(number) => self.int(number),
            None => self.flag(false),
        }
    }

    pub(super) fn flag(mut self, flag: bool) -> Self {
        self.0.push(if flag { 0xc3 } else { 0xc2 });
        self
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.0
    }
}
