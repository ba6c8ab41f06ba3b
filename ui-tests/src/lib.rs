//! Programs that must not compile, with the message that their author gets, and programs that must.
